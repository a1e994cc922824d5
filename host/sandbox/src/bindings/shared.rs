//! Conversions whose code is the same for every version of the contract, although the types that `bindgen!` generates are not.

/// Defines them for the version whose `types` and `host` the caller has imported as `wit` and `host`, and whose type `WorkedOut`
/// has what an object needs beside the core's, and whose function `observe` converts it.
macro_rules! shared_conversions {
    () => {
        /// What the core does not store of an object in a request as WIT has it, in the order of the objects. All other texts are
        /// borrowed from the request.
        pub(super) fn worked_out(request: &core::Request) -> Vec<WorkedOut<'_>> {
            let related = request
                .related
                .iter()
                .flat_map(|related| related.objects.iter().map(|object| WorkedOut::of_related(related, object)));
            request.children.iter().map(WorkedOut::of).chain(related).collect()
        }

        fn api_version(kind: &Gvk) -> Cow<'_, str> {
            if kind.group.is_empty() { (&*kind.version).into() } else { kind.api_version().into() }
        }

        /// The lists of a request, which WIT's types borrow.
        pub(super) struct Lists<'a> {
            children: Vec<wit::Observed<'a>>,
            related: Vec<(&'a str, Vec<wit::Observed<'a>>)>,
        }

        impl<'a> Lists<'a> {
            pub(super) fn of(request: &'a core::Request, worked_out: &'a [WorkedOut<'a>]) -> Self {
                let mut worked_out = worked_out.iter();
                let mut observed = |objects: &'a [core::Observed]| -> Vec<_> {
                    // `zip` advances its left side first: in the reverse order it would consume one item too many.
                    objects.iter().zip(worked_out.by_ref()).map(|(object, more)| observe(object, more)).collect()
                };
                let children = observed(&request.children);
                let related =
                    request.related.iter().map(|related| (&*related.id, observed(&related.objects))).collect();
                Self { children, related }
            }

            pub(super) fn related(&self) -> Vec<wit::Related<'_>> {
                self.related.iter().map(|(id, objects)| wit::Related { id, objects }).collect()
            }
        }

        fn kind(kind: &wit::KindResult) -> Gvk {
            Gvk::from_api_version(&kind.api_version, &kind.name)
        }

        fn update(
            strategy: wit::UpdateStrategy,
            until: impl FnOnce(Arc<[String]>) -> core::Until,
        ) -> core::UpdateStrategy {
            match strategy {
                wit::UpdateStrategy::Apply => core::UpdateStrategy::Apply,
                wit::UpdateStrategy::Recreate => core::UpdateStrategy::Recreate,
                wit::UpdateStrategy::OnDelete => core::UpdateStrategy::OnDelete,
                wit::UpdateStrategy::Rolling(rolling) => core::UpdateStrategy::Rolling {
                    recreate: rolling.recreate,
                    until: until(rolling.conditions.into()),
                },
            }
        }

        fn metric(metric: wit::Metric) -> core::Metric {
            core::Metric {
                name: metric.name,
                unit: metric.unit,
                description: metric.description,
                metric_type: match metric.metric_type {
                    wit::MetricType::Counter => core::MetricType::Counter,
                    wit::MetricType::Gauge => core::MetricType::Gauge,
                    wit::MetricType::Histogram => core::MetricType::Histogram,
                },
                labels: metric.labels,
            }
        }

        fn event(event: wit::Event) -> core::Event {
            core::Event {
                event_type: match event.event_type {
                    wit::EventType::Normal => core::EventType::Normal,
                    wit::EventType::Warning => core::EventType::Warning,
                },
                reason: event.reason,
                message: event.message,
            }
        }

        pub(super) fn level(level: host::Level) -> core::Level {
            match level {
                host::Level::Trace => core::Level::Trace,
                host::Level::Debug => core::Level::Debug,
                host::Level::Info => core::Level::Info,
                host::Level::Warn => core::Level::Warn,
                host::Level::Error => core::Level::Error,
            }
        }
    };
}

/// Takes the notes of a guest by the `host` of the version that the caller has imported, with its `types` and `convert`.
macro_rules! shared_host {
    () => {
        impl types::Host for Notes {}

        impl host::Host for Notes {
            fn log(&mut self, level: host::Level, message: String, fields: Vec<(String, String)>) {
                self.push(Note::Log { level: convert::level(level), message, fields });
            }

            fn span_attribute(&mut self, key: String, value: String) {
                self.push(Note::SpanAttribute { key, value });
            }

            fn span_event(&mut self, name: String, attributes: Vec<(String, String)>) {
                self.push(Note::SpanEvent { name, attributes });
            }

            fn measure(&mut self, metric: String, value: f64, labels: Vec<(String, String)>) {
                self.push(Note::Measure { metric, value, labels });
            }
        }
    };
}
