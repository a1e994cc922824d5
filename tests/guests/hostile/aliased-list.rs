//! Answers with 100 000 children of 1 MiB that are all the same MiB of its memory: small for the guest, 100 GB for a
//! host that copies what it reads. The host counts what it copies and fails the call.
#![allow(unsafe_code)]

use hostile_guests::{Answer, Hostile, Request, response};

struct AliasedList;

impl Hostile for AliasedList {
    const KIND: &str = "AliasedList";

    fn attack(_request: &Request) -> Answer {
        let region = vec![b' '; 1 << 20].leak();
        let children = (0..100_000).map(|_| {
            // SAFETY: none of this would be sound if the lists were ever dropped here, but lowering the answer only takes
            // their addresses; freeing them is asked for after the host has read the answer, which it must refuse to do.
            unsafe { Vec::from_raw_parts(region.as_mut_ptr(), region.len(), region.len()) }
        });
        Ok(response(children))
    }
}

hostile_guests::export!(AliasedList);
