//! The versions of the contract, one folder each: `bindgen!` and the conversion between WIT and the core's types.
//! Generated types are private to their folder, except what a call needs of an instance.

pub(crate) mod v0_1;
