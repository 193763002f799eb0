//! The Rust code of the messages is what the `.proto` files say. `UPDATE_PROTO=1` writes it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

#[test]
fn the_messages_are_those_of_the_proto() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let protos = root.join("../../proto");
    let files = ["router.proto", "fleet.proto"].map(|name| protos.join("warmroute/v1").join(name));
    let descriptors = protox::compile(files, [&protos]).unwrap();
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pb");
    std::fs::create_dir_all(&made).unwrap();
    let mut config = prost_build::Config::new();
    config.out_dir(&made).bytes(["."]).compile_fds(descriptors).unwrap();
    let made = std::fs::read_to_string(made.join("warmroute.v1.rs")).unwrap();
    let kept = root.join("src/warmroute.v1.rs");
    if std::env::var_os("UPDATE_PROTO").is_some() {
        std::fs::write(&kept, &made).unwrap();
    }
    assert!(std::fs::read_to_string(&kept).unwrap_or_default() == made, "run `make proto`");
}
