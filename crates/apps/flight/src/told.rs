//! An operation, and what tells of its result.

use std::pin::Pin;
use std::task::{Context, Poll};

/// An operation, and then what tells of its result. It never tells in the operation's first step: the thread
/// that starts the operation is still in that call, and operations that were answered before may be queued.
pub(crate) struct Told<F: Future, T> {
    operation: Pin<Box<F>>,
    result: Option<F::Output>,
    is_first: bool,
    tell: Option<T>,
}

impl<F: Future, T> Told<F, T> {
    pub(crate) fn new(operation: F, tell: T) -> Self {
        Self { operation: Box::pin(operation), result: None, is_first: true, tell: Some(tell) }
    }
}

// Nothing in it but the operation is ever pinned, and that has its own allocation.
impl<F: Future, T> Unpin for Told<F, T> {}

impl<F: Future, T: FnOnce(F::Output)> Future for Told<F, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let is_first = std::mem::replace(&mut this.is_first, false);
        let result = match this.result.take() {
            Some(result) => result,
            None => match this.operation.as_mut().poll(context) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
        };
        if is_first {
            this.result = Some(result);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(tell) = this.tell.take() {
            tell(result);
        }
        Poll::Ready(())
    }
}
