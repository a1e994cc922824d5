//! A puppet that may also own Roles and RoleBindings: kind `RbacPuppet`.

use hostile_guests::puppet;
use windlass_plugin::Kind;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

struct Role;

impl Kind for Role {
    const API_VERSION: &str = API_VERSION;
    const KIND: &str = "Role";
}

struct RoleBinding;

impl Kind for RoleBinding {
    const API_VERSION: &str = API_VERSION;
    const KIND: &str = "RoleBinding";
}

hostile_guests::puppet!(
    PuppetRbac,
    puppet::descriptor("puppet-rbac", puppet::namespaced::<PuppetRbac>("RbacPuppet"))
        .child::<Role>()
        .child::<RoleBinding>(),
    puppet::obey
);
