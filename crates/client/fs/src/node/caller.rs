//! As whom the servers are asked.

use std::sync::Arc;

use crate::caller::Caller;
use crate::error::Error;
use crate::mount::FileSystem;
use crate::session::{Done, Request};

impl FileSystem {
    /// Returns the same mount for another user: a clone whose requests, and those of the nodes and files
    /// found through it, are that user's.
    pub fn as_user(&self, caller: Caller) -> Self {
        let mut for_user = self.clone();
        for_user.caller = Arc::new(caller);
        for_user
    }

    /// Returns the user.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Sends a request as this user and waits for the reply.
    pub(crate) async fn call(&self, request: Request) -> Result<Done, Error> {
        self.core.call(Request { caller: Some(Arc::clone(&self.caller)), ..request }).await
    }
}
