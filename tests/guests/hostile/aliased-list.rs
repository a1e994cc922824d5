//! Returns 100 000 children of 1 MiB that are all the same MiB of its memory: small for the guest, 100 GB for a host
//! that copies what it reads. The host counts the bytes that it copies, and the call fails.
#![allow(unsafe_code)]

use hostile_guests::{Hostile, Outcome, Request, response};

struct AliasedList;

impl Hostile for AliasedList {
    const KIND: &str = "AliasedList";

    fn attack(_request: &Request) -> Outcome {
        let region = vec![b' '; 1 << 20].leak();
        let children = (0..100_000).map(|_| {
            // SAFETY: dropping these lists here would be unsound, but lowering the response only takes their addresses.
            // The host frees them after it has read the response, and it must reject the response before that.
            unsafe { Vec::from_raw_parts(region.as_mut_ptr(), region.len(), region.len()) }
        });
        Ok(response(children))
    }
}

hostile_guests::export!(AliasedList);
