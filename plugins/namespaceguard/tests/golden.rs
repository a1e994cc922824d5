//! The golden cases of NamespaceGuard, without wasm and without a cluster. The host's tests run them with the component.

use namespaceguard::NamespaceGuard;
use windlass_plugin::testing::golden;

#[test]
fn responses_are_the_expected_ones() {
    golden::check::<NamespaceGuard>("cases");
}
