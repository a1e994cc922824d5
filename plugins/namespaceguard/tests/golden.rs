//! NamespaceGuard's answers, without wasm and without a cluster; the host's tests hold the component to the same.

use namespaceguard::NamespaceGuard;
use windlass_plugin::testing::golden;

#[test]
fn answers_are_as_they_were_found_to_be_right() {
    golden::check::<NamespaceGuard>("cases");
}
