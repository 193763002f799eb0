//! Writes the seeds and the dictionary of the fuzz targets into a folder: `seeds FOLDER`. It needs no other crate.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use seeds::{BODIES, TEMPLATES, WORDS};

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
    let mut dictionary = fs::File::create(folder.join("dictionary"))?;
    for word in WORDS {
        let escaped: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
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
