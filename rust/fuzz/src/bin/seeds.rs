//! Writes the seeds and the dictionary of the fuzz targets into a folder: `seeds FOLDER`. It needs no other crate.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use seeds::{BODIES, TEMPLATES, WORDS};

#[path = "../event_seeds.rs"]
mod event_seeds;
#[path = "../seeds.rs"]
mod seeds;

/// `entry::SEPARATOR`.
const SEPARATOR: u8 = 0xff;

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1).ok_or(io::Error::other("usage: seeds FOLDER"))?;
    let folder = Path::new(&folder);
    for (target, seeds) in [("body", &BODIES[..]), ("template", &TEMPLATES[..])] {
        write(&folder.join(target), seeds.iter().map(|seed| seed.as_bytes().to_vec()))?;
    }
    // The first byte chooses the template.
    let chosen = |choice: u8| BODIES.iter().map(move |seed| [&[choice], seed.as_bytes()].concat());
    write(&folder.join("render"), (0..4).flat_map(chosen))?;
    let pair = |choice: u8| {
        let next = BODIES.iter().cycle().skip(1);
        BODIES.iter().zip(next).map(move |(one, other)| {
            [&[choice], one.as_bytes(), &[SEPARATOR], other.as_bytes(), &[SEPARATOR], one.as_bytes()].concat()
        })
    };
    write(&folder.join("cached"), (0..4).flat_map(pair))?;
    // A byte for the router, then each batch with its own of what comes and its length.
    let step = |batch: &[u8]| [&[0], &(batch.len() as u16).to_le_bytes()[..], batch].concat();
    let small: Vec<u8> = event_seeds::SMALL.into_iter().flat_map(step).collect();
    let captured = event_seeds::captured(Path::new("../.."))?;
    let several = captured[..8].iter().flat_map(|batch| step(batch)).collect();
    let steps =
        captured.iter().map(|batch| step(batch)).chain([several]).map(|steps| [&[0], &steps[..]].concat());
    let sizes = (0..4).map(|choice| [&[choice], &small[..]].concat());
    write(&folder.join("mirror"), steps.chain(sizes))?;
    write(&folder.join("events"), event_seeds::SMALL.into_iter().map(<[u8]>::to_vec).chain(captured))?;
    dictionary(&folder.join("dictionary"), WORDS.map(str::as_bytes))?;
    dictionary(&folder.join("dictionary-events"), event_seeds::WORDS)
}

fn dictionary<'a>(path: &Path, words: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
    let mut dictionary = fs::File::create(path)?;
    for word in words {
        let escaped: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        writeln!(dictionary, "\"{escaped}\"")?;
    }
    Ok(())
}

fn write(folder: &Path, seeds: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds.enumerate() {
        fs::write(folder.join(format!("seed-{number:02}")), seed)?;
    }
    Ok(())
}
