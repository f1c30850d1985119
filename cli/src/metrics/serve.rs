//! Answers over HTTP, for whoever asks and however slowly: one request a connection, some seconds for it, and
//! so many connections at once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE as CONTENT_TYPE_HEADER, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::address::ListenAddress;
use super::families::CONTENT_TYPE;
use super::source::MetricsSource;
use crate::stale_socket::clear_stale;
use crate::stop::stop_signal;

/// How long a request and its answer may take. mgbd's view is waited for 5 s at most.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Connections at once. Where there are more, the oldest one ends: whoever comes new and asks at once is
/// answered, however many hold theirs open.
const MAX_CONNECTIONS: usize = 64;
/// After a connection could not be accepted, for want of descriptors say.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves until a signal ends it.
///
/// # Errors
/// The address cannot be had.
pub(super) fn serve(address: &ListenAddress, source: Arc<MetricsSource>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()
        .context("failed to start a runtime")?;
    runtime.block_on(listen(address, &source))
}

async fn listen(address: &ListenAddress, source: &Arc<MetricsSource>) -> Result<()> {
    let failed = || format!("failed to listen at {address}");
    let listener = match address {
        ListenAddress::Port(port) => Listener::Port(TcpListener::bind(port).await.with_context(failed)?),
        ListenAddress::Socket(path) => {
            clear_stale(path).with_context(failed)?;
            Listener::Socket(UnixListener::bind(path).with_context(failed)?)
        }
    };
    let at = listener.address(address);
    mgb_command::tell!("mgb metrics: serves {at}");
    let mut stopped = pin!(stop_signal()?);
    let mut connections: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept(source) => match accepted {
                Ok(connection) => {
                    connections.retain(|one| !one.is_finished());
                    if connections.len() >= MAX_CONNECTIONS && let Some(oldest) = connections.pop_front() {
                        oldest.abort();
                    }
                    connections.push_back(connection);
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
            },
            () = &mut stopped => break,
        }
    }
    if let ListenAddress::Socket(path) = address {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

enum Listener {
    Port(TcpListener),
    Socket(UnixListener),
}

impl Listener {
    /// The address as it is: port 0 stands for any free one.
    fn address(&self, wanted: &ListenAddress) -> ListenAddress {
        match self {
            Listener::Port(listener) => listener
                .local_addr()
                .map_or_else(|_| wanted.clone(), ListenAddress::Port),
            Listener::Socket(_) => wanted.clone(),
        }
    }

    async fn accept(&self, source: &Arc<MetricsSource>) -> io::Result<JoinHandle<()>> {
        match self {
            Listener::Port(listener) => Ok(answer(listener.accept().await?.0, source)),
            Listener::Socket(listener) => Ok(answer(listener.accept().await?.0, source)),
        }
    }
}

/// Answers one request on a connection of its own.
fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    source: &Arc<MetricsSource>,
) -> JoinHandle<()> {
    let source = Arc::clone(source);
    let service = service_fn(move |request| respond(request, Arc::clone(&source)));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::spawn(async move {
        // Who breaks off, breaks the protocol or takes too long gets no answer, and nobody is told.
        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
    })
}

async fn respond(
    request: Request<Incoming>,
    source: Arc<MetricsSource>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let plain = |status, text: &str| with_type(status, "text/plain; charset=utf-8", text.to_owned());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD are answered\n");
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    Ok(match request.uri().path() {
        // A HEAD is answered with the same head; hyper leaves the body out.
        "/metrics" => {
            let text = tokio::task::spawn_blocking(move || source.text()).await;
            match text {
                Ok(Ok(text)) => with_type(StatusCode::OK, CONTENT_TYPE, text),
                Ok(Err(error)) => plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "mgb metrics failed\n"),
            }
        }
        "/" => plain(StatusCode::OK, "MGB's metrics are at /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics\n"),
    })
}

fn with_type(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE_HEADER, HeaderValue::from_static(kind));
    response
}
