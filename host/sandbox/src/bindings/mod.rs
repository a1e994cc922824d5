//! The versions of the contract, one folder each: `bindgen!` and the conversion between WIT and the core's types.
//! Generated types are private to their folder.

pub(crate) mod v0_1;
