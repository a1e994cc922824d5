//! The ServiceAccount of a Plugin: the host impersonates it to write children, and its permissions limit the objects
//! that the plugin may read.

use std::sync::Arc;

use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request};
use tokio::sync::OnceCell;
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::object::Object;
use windlass_core::value::ids::{PluginName, is_dns_subdomain};

/// Name of the host's ServiceAccount, Role and ClusterRole.
pub const HOST: &str = "windlass";

/// Name of a plugin's ServiceAccount, unless the Plugin names another.
pub fn plugin_account(name: &str) -> String {
    format!("windlass-plugin-{name}")
}

/// Header with the user to impersonate; the host needs permission to impersonate this user. The API server adds the
/// groups of a ServiceAccount by itself
/// (<https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>).
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A ServiceAccount in the host's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    namespace: Arc<str>,
    user: Arc<str>,
    header: HeaderValue,
}

impl Account {
    /// The ServiceAccount of this name; none if the name is invalid.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let header = HeaderValue::from_str(&user).ok().filter(|_| is_dns_subdomain(name))?;
        Some(Self { namespace: namespace.into(), user: user.into(), header })
    }

    /// Whether a Plugin whose spec names this ServiceAccount, or none, has this account.
    pub fn is_of(&self, plugin: &PluginName, named: Option<&str>) -> bool {
        let name = named.map_or_else(|| plugin_account(plugin.as_str()), str::to_owned);
        Self::new(&self.namespace, &name).is_some_and(|account| account == *self)
    }

    /// The namespace of the account, which is the host's own.
    pub fn host_namespace(&self) -> HostNamespace {
        HostNamespace::new(&self.namespace)
    }

    /// The host's namespace, if the object is in it or is that Namespace.
    pub fn host_namespace_of(&self, object: &Object) -> Option<HostNamespace> {
        let is_in_host_namespace = match &object.key.namespace {
            Some(namespace) => *namespace == self.namespace,
            None => object.kind.is("v1", "Namespace") && object.key.name == self.namespace,
        };
        is_in_host_namespace.then(|| self.host_namespace())
    }

    /// The user name that the API server gives to this account.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The groups that the API server gives to this account.
    pub fn groups(&self) -> Vec<String> {
        let all = "system:serviceaccounts";
        vec![all.to_owned(), format!("{all}:{}", self.namespace), "system:authenticated".to_owned()]
    }

    /// Makes a request impersonate this account.
    pub fn sign(&self, request: &mut Request<Vec<u8>>) {
        request.headers_mut().insert(IMPERSONATE_USER, self.header.clone());
    }
}

/// Asks the API server for the host's own user name; the error says why that failed.
pub type AskOwn = Box<dyn Fn() -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Why a Plugin has no ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The Plugin names an account that it may not use.
    #[error("{0}")]
    Invalid(String),
    /// The host's own user name is not known, so the account cannot be checked.
    #[error("spec.serviceAccountName cannot be checked, because the host's own user name is unknown: {0}")]
    Unknown(String),
}

/// The ServiceAccounts that Plugins may name: those in the host's namespace except the host's own.
pub struct Accounts {
    namespace: String,
    ask: AskOwn,
    own: OnceCell<String>,
}

impl Accounts {
    /// The ServiceAccounts of this namespace. The host's own user name is requested until it is known; before that no
    /// Plugin gets an account.
    pub fn new(namespace: &str, ask: AskOwn) -> Self {
        Self { namespace: namespace.to_owned(), ask, own: OnceCell::new() }
    }

    /// The account that a Plugin names in its spec, or its default account.
    ///
    /// # Errors
    /// Why the Plugin may not use the account; the text is for users.
    pub async fn of(&self, plugin: &PluginName, named: Option<&str>) -> Result<Account, AccountError> {
        let default = plugin_account(plugin.as_str());
        let name = named.unwrap_or(&default);
        let account = Account::new(&self.namespace, name).ok_or_else(|| {
            AccountError::Invalid(format!(
                "spec.serviceAccountName {name:?} is not a valid name of a ServiceAccount (RFC 1123)"
            ))
        })?;
        let own = self.own.get_or_try_init(|| (self.ask)()).await.map_err(AccountError::Unknown)?;
        if name == HOST || own == account.user() {
            return Err(AccountError::Invalid(format!(
                "spec.serviceAccountName {name:?} is the host's own ServiceAccount; set a ServiceAccount of the plugin's own"
            )));
        }
        Ok(account)
    }
}

/// The user that a request impersonates; none if it is sent as the host itself.
pub fn signer<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get(IMPERSONATE_USER)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use parking_lot::Mutex;
    use serde_json::json;
    use windlass_core::value::ids::Gvk;

    use super::*;

    /// The accounts of a host that receives these responses about itself, in order.
    fn accounts(responses: Vec<Result<String, String>>) -> Accounts {
        let responses = Mutex::new(responses.into_iter());
        let ask = move || std::future::ready(responses.lock().next().expect("too many requests")).boxed();
        Accounts::new("windlass-system", Box::new(ask))
    }

    #[test]
    fn request_impersonates_the_plugins_account() {
        let account = Account::new("windlass-system", "windlass-plugin-echo").expect("a name");
        let mut request = Request::new(Vec::new());
        assert_eq!(signer(&request), None);
        account.sign(&mut request);
        let headers: Vec<_> = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let user = "system:serviceaccount:windlass-system:windlass-plugin-echo";
        assert_eq!(headers, [("impersonate-user", user.as_bytes())]);
        assert_eq!((account.user(), signer(&request)), (user, Some(user)));
    }

    #[test]
    fn s01_hosts_namespace_and_the_objects_in_it_are_recognized() {
        let account = Account::new("windlass-system", "windlass-plugin-echo").expect("a name");
        let is_in_host_namespace = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| {
            let kind = Arc::new(Gvk::from_api_version(api_version, kind));
            let meta = json!({"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"});
            let object = Object::from_api(&kind, &json!({ "metadata": meta }).to_string()).expect("an object");
            account.host_namespace_of(&object).is_some()
        };
        assert!(is_in_host_namespace("v1", "Secret", Some("windlass-system"), "a"));
        assert!(is_in_host_namespace("v1", "Namespace", None, "windlass-system"));
        assert!(!is_in_host_namespace("v1", "Secret", Some("shop"), "windlass-system"));
        assert!(!is_in_host_namespace("v1", "Namespace", None, "shop"));
        assert!(!is_in_host_namespace("v1", "Node", None, "windlass-system"), "another kind with the same name");
    }

    #[tokio::test]
    async fn plugin_has_its_own_account_unless_it_names_another_and_never_the_hosts() {
        let own = "system:serviceaccount:windlass-system:operator".to_owned();
        let accounts = accounts(vec![Ok(own)]);
        let echo = "echo".parse().expect("a name");
        let user = async |named| accounts.of(&echo, named).await.map(|account| account.user().to_owned());
        let of = |name: &str| Ok(format!("system:serviceaccount:windlass-system:{name}"));
        assert_eq!(user(None).await, of("windlass-plugin-echo"));
        assert_eq!(user(Some("shared")).await, of("shared"));
        for hosts in ["windlass", "operator"] {
            let refused = user(Some(hosts)).await.expect_err("refused").to_string();
            assert!(refused.contains("the host's own"), "{hosts}: {refused}");
        }
        for odd in ["a:b", "echo\r\nimpersonate-group: system:masters", "", "../echo"] {
            assert!(user(Some(odd)).await.expect_err("refused").to_string().contains("not a valid name"), "{odd}");
        }
    }

    #[tokio::test]
    async fn plugin_gets_no_account_before_the_hosts_own_account_is_known() {
        let own = "system:serviceaccount:windlass-system:operator".to_owned();
        let accounts = accounts(vec![Err("no response".to_owned()), Err("no response".to_owned()), Ok(own)]);
        let echo = "echo".parse().expect("a name");
        for named in [Some("operator"), None] {
            let unknown = AccountError::Unknown("no response".to_owned());
            assert_eq!(accounts.of(&echo, named).await, Err(unknown), "{named:?}");
        }
        assert!(
            matches!(accounts.of(&echo, Some("operator")).await, Err(AccountError::Invalid(_))),
            "the account is the host's own"
        );
        assert!(accounts.of(&echo, None).await.is_ok(), "the host's account is cached");
    }
}
