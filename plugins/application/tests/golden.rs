//! The golden cases of Application, without wasm and without a cluster. The host's tests run them with the component.

use application::Application;
use windlass_plugin::testing::golden;

#[test]
fn responses_are_the_expected_ones() {
    golden::check::<Application>("cases");
}

#[test]
fn crd_json_is_the_crd_of_the_types() {
    golden::crd::<Application>("crd.json");
}
