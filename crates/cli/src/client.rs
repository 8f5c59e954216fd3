//! Connecting.

use loligo_rados::{Builder, IoCtx, Rados};
use tokio::runtime::Runtime;

use crate::args::{Cli, Format, FormatName};
use crate::failure::{Context, Failure};

/// What the command line says about the cluster and the pool, not connected yet.
pub(crate) struct Client {
    builder: Builder,
    pool: Option<String>,
    namespace: String,
    pub(crate) format: Format,
}

/// A pool of a connected cluster.
pub(crate) struct Pool {
    pub(crate) rados: Rados,
    pub(crate) ioctx: IoCtx,
    /// As it appears in messages.
    pub(crate) name: String,
    pub(crate) format: Format,
}

impl Client {
    pub(crate) fn new(builder: Builder, cli: &Cli) -> Result<Self, Failure> {
        let Cli { pool, namespace, .. } = cli;
        let format = match cli.format {
            FormatName::Plain => Format::Plain,
            FormatName::Json => Format::Json,
            FormatName::Prometheus => {
                return Err(Failure::new("--format prometheus", "is for lockstat only"));
            }
            FormatName::Html => return Err(Failure::new("--format html", "is for contend only")),
        };
        Ok(Self { builder, pool: pool.last().cloned(), namespace: namespace.clone(), format })
    }

    pub(crate) async fn cluster(self) -> Result<Rados, Failure> {
        self.builder.connect().await.context(|| "connect".to_owned())
    }

    pub(crate) async fn pool(self) -> Result<Pool, Failure> {
        let name =
            self.pool.clone().ok_or_else(|| Failure::new("pool", "not given; name it with -p POOL"))?;
        let (namespace, format) = (self.namespace.clone(), self.format);
        let rados = self.cluster().await?;
        let ioctx = rados.ioctx(&name).await.context(|| format!("open pool {name}"))?;
        Ok(Pool { rados, ioctx: ioctx.with_namespace(namespace), name, format })
    }
}

impl Pool {
    /// Names an object in a message.
    pub(crate) fn names(&self, command: &str, object: &str) -> String {
        format!("{command} {}/{object}", self.name)
    }
}

/// A runtime; with one thread nothing is ever handed from one to another.
pub(crate) fn runtime(threads: usize) -> Result<Runtime, Failure> {
    let mut builder = match threads {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        n => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    builder.enable_all().build().context(|| "start threads".to_owned())
}
