//! MyApp's answers, without wasm and without a cluster; the host's tests hold the component to the same.

use myapp::MyApp;
use windlass_plugin::testing::golden;

#[test]
fn answers_are_as_they_were_found_to_be_right() {
    golden::check::<MyApp>("cases");
}

#[test]
fn the_definition_is_the_one_that_the_types_make() {
    golden::definition::<MyApp>("crd.json");
}
