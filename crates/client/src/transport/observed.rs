//! A transport whose messages are shown to an observer.

use crate::{
    RequestError, WireEvent, WireObserver,
    transport::{Outgoing, Reply, Transport},
};
use http::HeaderMap;
use longhaul_core::BoxFuture;
use std::sync::Arc;

pub(crate) struct ObservedTransport<T> {
    transport: T,
    observer: Arc<dyn WireObserver>,
}

impl<T: Transport> ObservedTransport<T> {
    pub(crate) fn new(transport: T, observer: Arc<dyn WireObserver>) -> Self {
        Self { transport, observer }
    }

    /// Other transports ignore the headers.
    fn of_http<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderMap> {
        (!self.transport.is_session()).then_some(headers)
    }

    fn observe_reply(&self, reply: Reply) -> Reply {
        if !self.transport.is_session() {
            self.observer.observe(WireEvent::Answered {
                status: reply.status,
                session: reply.session.as_ref(),
            });
        }
        let observer = Arc::clone(&self.observer);
        reply.inspect(move |message| {
            observer.observe(match message {
                Ok(message) => WireEvent::Received { message },
                Err(error) => WireEvent::Failed { error },
            });
        })
    }

    fn observe_error(&self, error: RequestError) -> RequestError {
        self.observer.observe(WireEvent::Failed { error: &error });
        error
    }
}

impl<T: Transport> Transport for ObservedTransport<T> {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Reply, RequestError>> {
        Box::pin(async move {
            self.observer.observe(WireEvent::Sent {
                message: &message.body,
                headers: self.of_http(&message.headers),
            });
            match self.transport.send(message).await {
                Ok(reply) => Ok(self.observe_reply(reply)),
                Err(error) => Err(self.observe_error(error)),
            }
        })
    }

    fn listen(&self, headers: HeaderMap) -> BoxFuture<'_, Result<Option<Reply>, RequestError>> {
        Box::pin(async move {
            self.observer.observe(WireEvent::Listening {
                headers: self.of_http(&headers),
            });
            match self.transport.listen(headers).await {
                Ok(reply) => Ok(reply.map(|reply| self.observe_reply(reply))),
                Err(error) => Err(self.observe_error(error)),
            }
        })
    }

    fn fall_back(&self) -> BoxFuture<'_, Result<bool, RequestError>> {
        self.transport.fall_back()
    }

    fn close(&self, headers: HeaderMap) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.observer.observe(WireEvent::Closing {
                headers: self.of_http(&headers),
            });
            self.transport.close(headers).await;
        })
    }

    fn is_session(&self) -> bool {
        self.transport.is_session()
    }

    fn has_ended(&self) -> bool {
        self.transport.has_ended()
    }

    fn address(&self) -> &str {
        self.transport.address()
    }
}
