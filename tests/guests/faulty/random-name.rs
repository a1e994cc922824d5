//! Gives a child a random name in each call, instead of keeping the name of the live child.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json, random};

struct RandomName;

impl Reconciler for RandomName {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("RandomName")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let [first, second, ..] = random::bytes(8)[..] else { return Err(Failure::failed("too few random bytes")) };
        Ok(good(&request).child(config_map(&format!("{}-{first:02x}{second:02x}", request.name()), &json!({}))))
    }
}

windlass_plugin::export!(RandomName);
