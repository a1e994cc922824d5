//! The metrics in Prometheus' text format: those of the host from the same instruments that OTLP exports, and those of plugins.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hyper::body::Bytes;
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::{Registry, TextEncoder};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::measures::PluginMetrics;
use crate::clock;

/// Media type of the text format.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;
/// Time for which a text is served again. Every client that can connect may scrape, and a scrape costs CPU.
const FRESH: Duration = Duration::from_millis(500);
/// Names of OTLP's conventions: the same facts have other names for Prometheus.
const OTLP_ONLY: &str = "operator_";

/// Collects the metrics when Prometheus scrapes them. Clones share the texts.
#[derive(Clone)]
pub struct Scrape {
    registry: Registry,
    plugins: Arc<PluginMetrics>,
    texts: Arc<Mutex<Texts>>,
}

/// The texts in memory: the last one, and the one before for as long as a client receives it.
#[derive(Default)]
struct Texts {
    last: Option<(Instant, Text)>,
    before: Weak<String>,
}

/// A text that all scrapers share.
#[derive(Clone)]
struct Text(Arc<String>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Texts {
    /// The last text if it is fresh, or if the text before is still being sent: slow clients must not keep many texts in memory.
    fn current(&self) -> Option<Bytes> {
        let (at, text) = self.last.as_ref()?;
        let is_served = clock::since(*at) < FRESH || self.before.strong_count() > 0;
        is_served.then(|| Bytes::from_owner(text.clone()))
    }

    fn add(&mut self, text: String) -> Bytes {
        let text = Text(Arc::new(text));
        let before = self.last.replace((clock::now(), text.clone()));
        self.before = before.map(|(_, Text(before))| Arc::downgrade(&before)).unwrap_or_default();
        Bytes::from_owner(text)
    }
}

impl Scrape {
    /// A scrape of the instruments that report to the returned reader, of the metrics of plugins, and of the process (memory, CPU, files).
    ///
    /// # Errors
    /// If the reader cannot be set up.
    pub(super) fn new(plugins: Arc<PluginMetrics>) -> anyhow::Result<(Self, PrometheusExporter)> {
        let registry = Registry::new();
        // It reads /proc, so that other systems do not have it.
        #[cfg(target_os = "linux")]
        {
            let process = prometheus::process_collector::ProcessCollector::for_self();
            registry.register(Box::new(process)).context("the process cannot be observed")?;
        }
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            // The instruments have complete names, with units and `_total`.
            .without_units()
            .without_counter_suffixes()
            .scope_info_enabled(false)
            .build()
            .context("no metrics for Prometheus")?;
        Ok((Self { registry, plugins, texts: Arc::default() }, reader))
    }

    /// The metrics as text: at most half a second old, unless a client is still receiving the text before the last one.
    ///
    /// # Errors
    /// If a metric has an invalid name or no series, or the text cannot be computed.
    pub async fn text(&self) -> anyhow::Result<Bytes> {
        let mut texts = self.texts.clone().lock_owned().await;
        if let Some(text) = texts.current() {
            return Ok(text);
        }
        let Self { registry, plugins, .. } = self.clone();
        // Not by a thread of the runtime, which others need; and by one thread at a time, even if the client goes away meanwhile.
        spawn_blocking(move || Ok(texts.add(write(&registry, &plugins)?))).await?
    }
}

fn write(registry: &Registry, plugins: &PluginMetrics) -> anyhow::Result<String> {
    let mut families = registry.gather();
    families.retain(|family| !family.name().starts_with(OTLP_ONLY));
    let mut text = TextEncoder::new().encode_to_string(&families)?;
    text.reserve_exact(plugins.bytes());
    plugins.write(&mut text);
    // The bytes in memory of short series are more than those of their lines.
    text.shrink_to_fit();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use prometheus::IntGauge;
    use prometheus::core::{Collector, Desc};
    use prometheus::proto::MetricFamily;

    use super::*;

    /// Each collection announces itself, and then waits for its release.
    struct Slow {
        number: IntGauge,
        begun: tokio::sync::mpsc::UnboundedSender<()>,
        release: parking_lot::Mutex<mpsc::Receiver<()>>,
    }

    impl Collector for Slow {
        fn desc(&self) -> Vec<&Desc> {
            self.number.desc()
        }

        fn collect(&self) -> Vec<MetricFamily> {
            self.number.inc();
            self.begun.send(()).expect("the test runs");
            self.release.lock().recv_timeout(Duration::from_mins(1)).expect("released while the runtime goes on");
            self.number.collect()
        }
    }

    fn scrape() -> Scrape {
        Scrape::new(Arc::new(PluginMetrics::new(None))).expect("a scrape").0
    }

    /// A scrape with a slow collector, what announces its collections, and what releases them.
    fn slow() -> (Scrape, tokio::sync::mpsc::UnboundedReceiver<()>, mpsc::Sender<()>) {
        let ((begun, begins), (releases, release)) = (tokio::sync::mpsc::unbounded_channel(), mpsc::channel());
        let number = IntGauge::new("number", "of the collection").expect("valid");
        let scrape = scrape();
        let slow = Slow { number, begun, release: release.into() };
        scrape.registry.register(Box::new(slow)).expect("registered");
        (scrape, begins, releases)
    }

    /// Makes the last text old.
    async fn age(scrape: &Scrape) {
        let mut texts = scrape.texts.lock().await;
        let (at, _) = texts.last.as_mut().expect("a text");
        *at = at.checked_sub(FRESH).expect("the machine has run for longer");
    }

    #[tokio::test]
    async fn metrics_are_collected_off_the_threads_of_the_runtime_and_scrapers_share_one_text() {
        let (scrape, mut begins, releases) = slow();
        let (one, other) = (scrape.clone(), scrape.clone());
        let texts = tokio::spawn(async move { tokio::try_join!(one.text(), other.text()).expect("texts") });
        begins.recv().await.expect("a collection");
        // The only thread of this runtime goes on during the collection.
        releases.send(()).expect("waited for");
        let (one, other) = texts.await.expect("texts");
        assert!(String::from_utf8_lossy(&one).contains("\nnumber 1\n"));
        assert_eq!(one.as_ptr(), other.as_ptr(), "the same bytes");
    }

    #[tokio::test]
    async fn collection_of_a_client_that_went_away_serves_the_next_client() {
        let (scrape, mut begins, releases) = slow();
        let gone = scrape.clone();
        let gone = tokio::spawn(async move { gone.text().await });
        begins.recv().await.expect("a collection");
        gone.abort();
        assert!(gone.await.is_err_and(|error| error.is_cancelled()));
        let text = tokio::spawn(async move { scrape.text().await.expect("a text") });
        tokio::task::yield_now().await;
        releases.send(()).expect("waited for");
        assert!(String::from_utf8_lossy(&text.await.expect("a text")).contains("\nnumber 1\n"));
        assert!(begins.try_recv().is_err(), "one collection");
    }

    #[tokio::test]
    async fn slow_clients_keep_two_texts_in_memory_at_most() {
        let scrape = scrape();
        let text = async || scrape.text().await.expect("a text");
        let first = text().await;
        age(&scrape).await;
        let second = text().await;
        assert_ne!(first.as_ptr(), second.as_ptr());
        for _ in 0..3 {
            age(&scrape).await;
            assert_eq!(text().await.as_ptr(), second.as_ptr(), "the first text is still being sent");
        }
        drop(first);
        assert_ne!(text().await.as_ptr(), second.as_ptr());
    }
}
