//! Asks the owner of the exclusive lock to change the image.

use std::pin::pin;
use std::time::Duration;

use loligo_rados::Errno;
use loligo_wire::Encode as _;

use super::TRY_EVERY;
use super::messages::{ANSWER_TIMEOUT, Message, RequestId, Wanted, result_of};
use super::requests::News;
use crate::Error;
use crate::image::{Image, Inner};
use crate::progress::report;

/// How long an owner may be silent about a request.
const SILENCE_MAX: Duration = Duration::from_secs(30);

impl Image {
    /// Asks the lock's owner to do something, if the owner is another client, alive, and supports it;
    /// reports its progress. Returns `false` if this client must do it itself, with the lock.
    ///
    /// # Errors
    /// The owner's error, as an errno; failures to ask the owner.
    pub(crate) async fn has_owner_do(
        &self,
        wanted: Wanted,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<bool, Error> {
        let inner = &self.inner;
        loop {
            inner.check()?;
            inner.check_header().await?;
            inner.confirm_lock().await?;
            if inner.may_write() {
                return Ok(false);
            }
            let Some(owner) = inner.owner().await? else { return Ok(false) };
            if !inner.is_alive(&owner).await? {
                return Ok(false);
            }
            let _wait = inner.io.rados().waits_for(inner.locked_by(&owner, "change it"));
            match inner.ask_owner(wanted.clone(), &mut progress).await? {
                Some(0..) => {
                    inner.refresh().await?;
                    return Ok(true);
                }
                Some(result) if result == Errno::EOPNOTSUPP.to_result() => return Ok(false),
                Some(result) => return Err(Errno(result.saturating_neg()).into()),
                // The owner has changed, or is about to.
                None => tokio::time::sleep(TRY_EVERY / 4).await,
            }
        }
    }
}

impl Inner {
    /// Sends a request and returns its result; `None` if the owner is silent.
    async fn ask_owner(
        &self,
        wanted: Wanted,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<Option<i32>, Error> {
        let mut asked = self.requests.ask();
        let mut freed = pin!(self.freed.notified());
        freed.as_mut().enable();
        let of = Some(RequestId { client: self.client_id(), number: asked.number });
        let message = Message::Request { of, wanted }.to_bytes();
        let answered = self.io.notify(&*self.header, message, ANSWER_TIMEOUT).await?;
        match answered.answers.values().find_map(|answer| result_of(answer)) {
            Some(0..) => {}
            refused => return Ok(refused),
        }
        let mut is_freed = false;
        loop {
            // An owner that releases the lock to carry out the request announces that before the result.
            let silence = if is_freed { ANSWER_TIMEOUT } else { SILENCE_MAX };
            tokio::select! {
                biased;
                told = asked.news.changed() => told.map_err(|_| Errno::ENOTCONN)?,
                () = &mut freed, if !is_freed => {
                    is_freed = true;
                    continue;
                }
                () = tokio::time::sleep(silence) => return Ok(None),
            }
            let News { done, all, result } = *asked.news.borrow_and_update();
            if result.is_some() {
                return Ok(result);
            }
            report(progress, done, all).await;
        }
    }
}
