//! Opens `/etc/passwd` in every folder that it is given. There is none, so there is nothing to open it in, and the
//! answer is a good one.

use hostile_guests::{Answer, Failure, Hostile, Request, good};
use wasip2::filesystem::{
    preopens,
    types::{DescriptorFlags, OpenFlags, PathFlags},
};

struct Files;

impl Hostile for Files {
    const KIND: &str = "Files";

    fn attack(request: &Request) -> Answer {
        if let Some((folder, path)) = preopens::get_directories().first() {
            let found = folder.open_at(PathFlags::empty(), "etc/passwd", OpenFlags::empty(), DescriptorFlags::READ);
            return Err(Failure::Failed(format!("there is a folder {path}: {found:?}")));
        }
        Ok(good(request))
    }
}

hostile_guests::export!(Files);
