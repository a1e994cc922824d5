//! A Plugin's ServiceAccount: as which its children are written, and whose rights bound what it reads.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, Shared};
use http::{HeaderName, HeaderValue, Request};
use windlass_core::ids::{PluginName, is_dns_subdomain};

use super::rbac;

/// The API server does as the user whom this header names, if the host may impersonate that one. The groups of a
/// ServiceAccount it adds by itself
/// (<https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>).
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A ServiceAccount of the host's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    namespace: Arc<str>,
    user: Arc<str>,
    header: HeaderValue,
}

impl Account {
    /// The one of this name; none if no object can have it.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let header = HeaderValue::from_str(&user).ok().filter(|_| is_dns_subdomain(name))?;
        Some(Self { namespace: namespace.into(), user: user.into(), header })
    }

    /// How the API server names it.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The groups that the API server gives to it.
    pub fn groups(&self) -> Vec<String> {
        let all = "system:serviceaccounts";
        vec![all.to_owned(), format!("{all}:{}", self.namespace), "system:authenticated".to_owned()]
    }

    /// Has the API server do as this one.
    pub fn sign(&self, request: &mut Request<Vec<u8>>) {
        request.headers_mut().insert(IMPERSONATE_USER, self.header.clone());
    }
}

/// The ServiceAccounts that Plugins may name: those of the host's namespace, but for its own.
pub struct Accounts {
    namespace: String,
    own: Shared<BoxFuture<'static, Option<String>>>,
}

impl Accounts {
    /// Of this namespace; `own` finds out who the host itself is, which begins now.
    pub fn new(namespace: &str, own: impl Future<Output = Option<String>> + Send + 'static) -> Self {
        let own = own.boxed().shared();
        tokio::spawn(own.clone());
        Self { namespace: namespace.to_owned(), own }
    }

    /// The one that a Plugin names in its spec, or the one that it has if it names none.
    ///
    /// # Errors
    /// In words for a user.
    pub async fn of(&self, plugin: &PluginName, named: Option<&str>) -> Result<Account, String> {
        let default = rbac::plugin_account(plugin.as_str());
        let name = named.unwrap_or(&default);
        let account = Account::new(&self.namespace, name)
            .ok_or_else(|| format!("spec.serviceAccountName {name:?} is no name of a ServiceAccount (RFC 1123)"))?;
        let own = self.own.clone().await;
        if name == rbac::HOST || own.is_some_and(|own| own == account.user()) {
            return Err(format!(
                "spec.serviceAccountName is {name:?}, the host's own, whose rights are not a plugin's: set one of its own"
            ));
        }
        Ok(account)
    }
}

/// The user as whom a request is done; none if it is the host itself.
pub fn signer(request: &Request<Vec<u8>>) -> Option<&str> {
    request.headers().get(IMPERSONATE_USER)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_done_as_the_plugins_account() {
        let account = Account::new("windlass-system", "windlass-plugin-echo").expect("a name");
        let mut request = Request::new(Vec::new());
        assert_eq!(signer(&request), None);
        account.sign(&mut request);
        let headers: Vec<_> = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let user = "system:serviceaccount:windlass-system:windlass-plugin-echo";
        assert_eq!(headers, [("impersonate-user", user.as_bytes())]);
        assert_eq!((account.user(), signer(&request)), (user, Some(user)));
    }

    #[tokio::test]
    async fn a_plugin_has_an_account_of_its_own_unless_it_names_another_and_never_the_hosts() {
        let own = "system:serviceaccount:windlass-system:operator".to_owned();
        let accounts = Accounts::new("windlass-system", std::future::ready(Some(own)));
        let echo = "echo".parse().expect("a name");
        let user = async |named| accounts.of(&echo, named).await.map(|account| account.user().to_owned());
        let of = |name: &str| Ok(format!("system:serviceaccount:windlass-system:{name}"));
        assert_eq!(user(None).await, of("windlass-plugin-echo"));
        assert_eq!(user(Some("shared")).await, of("shared"));
        for hosts in ["windlass", "operator"] {
            assert!(user(Some(hosts)).await.expect_err("refused").contains("the host's own"), "{hosts}");
        }
        for odd in ["a:b", "echo\r\nimpersonate-group: system:masters", "", "../echo"] {
            assert!(user(Some(odd)).await.expect_err("refused").contains("no name"), "{odd}");
        }
    }
}
