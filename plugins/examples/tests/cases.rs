//! The golden cases of the examples, without wasm and without a cluster.

use examples::{
    catset::CatSet, clusteredparent::ClusteredParent, configmappropagation::ConfigMapPropagation,
    globalconfigmap::GlobalConfigMap, indexedjob::IndexedJob, service_per_pod::ServicePerPod,
};
use windlass_plugin::testing::golden;

#[test]
fn responses_are_the_expected_ones() {
    golden::check::<CatSet>("catset/cases");
    golden::check::<ClusteredParent>("clusteredparent/cases");
    golden::check::<ConfigMapPropagation>("configmappropagation/cases");
    golden::check::<GlobalConfigMap>("globalconfigmap/cases");
    golden::check::<IndexedJob>("indexedjob/cases");
    golden::check::<ServicePerPod>("service-per-pod/cases");
}

#[test]
fn each_crd_json_is_the_crd_of_the_types() {
    golden::crd::<CatSet>("catset/crd.json");
    golden::crd::<ConfigMapPropagation>("configmappropagation/crd.json");
    golden::crd::<GlobalConfigMap>("globalconfigmap/crd.json");
    golden::crd::<IndexedJob>("indexedjob/crd.json");
}
