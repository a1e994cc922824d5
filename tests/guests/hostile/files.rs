//! Tries to open `/etc/passwd` in every folder that it is given. It is given none, so it can open nothing, and its
//! response is valid.

use hostile_guests::{Failure, Hostile, Outcome, Request, good};
use wasip2::filesystem::{
    preopens,
    types::{DescriptorFlags, OpenFlags, PathFlags},
};

struct Files;

impl Hostile for Files {
    const KIND: &str = "Files";

    fn attack(request: &Request) -> Outcome {
        if let Some((folder, path)) = preopens::get_directories().first() {
            let found = folder.open_at(PathFlags::empty(), "etc/passwd", OpenFlags::empty(), DescriptorFlags::READ);
            return Err(Failure::Failed(format!("there is a folder {path}: {found:?}")));
        }
        Ok(good(request))
    }
}

hostile_guests::export!(Files);
