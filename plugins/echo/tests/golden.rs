//! The golden cases of Echo, without wasm and without a cluster. The host's tests run them with the component.

use echo::Echo;
use windlass_plugin::testing::golden;

#[test]
fn responses_are_the_expected_ones() {
    golden::check::<Echo>("cases");
}

#[test]
fn crd_json_is_the_crd_of_the_types() {
    golden::crd::<Echo>("crd.json");
}
