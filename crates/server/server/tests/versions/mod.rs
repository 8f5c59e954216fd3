//! Tests that run with both versions of the messenger's protocol.

use loligo_server::{Builder, Server};
use loligo_wire::AddrKind;

/// Runs a test, which is told the version, with both versions.
macro_rules! both_versions {
    ($test:ident) => {
        mod $test {
            use loligo_wire::AddrKind::{Legacy, Msgr2};

            #[tokio::test(flavor = "multi_thread")]
            async fn v2() {
                super::$test(Msgr2).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn v1() {
                super::$test(Legacy).await;
            }
        }
    };
}
pub(crate) use both_versions;

/// A server in memory that serves one version alone.
pub(crate) fn server_of(speaks: AddrKind) -> Builder {
    Server::memory().msgr2(speaks == AddrKind::Msgr2)
}
