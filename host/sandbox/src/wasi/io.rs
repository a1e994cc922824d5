//! Implements `wasi:io`: streams that write to the call's notes, and a poll that advances the virtual clock instead of
//! waiting.

use wasmtime::component::Resource;
use wasmtime::{Result, bail, format_err};
use wasmtime_wasi::p2::bindings::sync::io::{error, poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use super::Wasi;
use crate::notes::Stream;

/// Number of bytes that `check_write` permits in one write; `write` itself accepts more.
const CHUNK: u64 = 64 * 1024;

/// The number of pollables that are always ready, such as streams.
const READY: u32 = 0;

/// The guest's timers; a pollable's number is its index here plus one.
#[derive(Default)]
pub(super) struct Timers {
    at: Vec<u64>,
    free: Vec<u32>,
}

impl Timers {
    fn add(&mut self, at: u64) -> Result<u32> {
        if let Some(number) = self.free.pop() {
            if let Some(place) = self.place(number) {
                *place = at;
            }
            return Ok(number);
        }
        self.at.push(at);
        Ok(u32::try_from(self.at.len())?)
    }

    fn place(&mut self, number: u32) -> Option<&mut u64> {
        self.at.get_mut((number as usize).checked_sub(1)?)
    }

    /// The time at which this pollable is ready, in nanoseconds of the monotonic clock; 0 for streams, which are always
    /// ready.
    fn at(&mut self, number: u32) -> u64 {
        self.place(number).map_or(0, |at| *at)
    }
}

pub(super) fn output_number(stream: Stream) -> u32 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

fn output(stream: &Resource<DynOutputStream>) -> Stream {
    if stream.rep() == output_number(Stream::Stdout) { Stream::Stdout } else { Stream::Stderr }
}

impl Wasi {
    pub(super) fn subscribe_timer(&mut self, at: u64) -> Result<Resource<DynPollable>> {
        self.count_handle()?;
        Ok(Resource::new_own(self.timers.add(at)?))
    }
}

impl poll::Host for Wasi {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        let at: Vec<u64> = pollables.iter().map(|pollable| self.timers.at(pollable.rep())).collect();
        let Some(first) = at.iter().min() else { bail!("poll of an empty list waits forever") };
        self.now = self.now.max(*first);
        Ok((0..).zip(at).filter(|(_, at)| *at <= self.now).map(|(index, _)| index).collect())
    }
}

impl poll::HostPollable for Wasi {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        Ok(self.timers.at(pollable.rep()) <= self.now)
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        self.now = self.now.max(self.timers.at(pollable.rep()));
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        if pollable.rep() != READY {
            self.timers.free.push(pollable.rep());
        }
        self.take_back();
        Ok(())
    }
}

impl error::Host for Wasi {}
impl error::HostError for Wasi {
    fn to_debug_string(&mut self, _: Resource<error::Error>) -> Result<String> {
        bail!("no stream of this host fails")
    }

    fn drop(&mut self, _: Resource<error::Error>) -> Result<()> {
        Ok(())
    }
}

impl streams::Host for Wasi {
    fn convert_stream_error(&mut self, error: StreamError) -> Result<streams::StreamError> {
        match error {
            StreamError::Closed => Ok(streams::StreamError::Closed),
            StreamError::LastOperationFailed(error) | StreamError::Trap(error) => Err(error),
        }
    }
}

/// Standard input is closed from the start.
impl streams::HostInputStream for Wasi {
    fn read(&mut self, _: Resource<DynInputStream>, _len: u64) -> StreamResult<Vec<u8>> {
        Err(StreamError::Closed)
    }

    fn blocking_read(&mut self, _: Resource<DynInputStream>, _len: u64) -> StreamResult<Vec<u8>> {
        Err(StreamError::Closed)
    }

    fn skip(&mut self, _: Resource<DynInputStream>, _len: u64) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn blocking_skip(&mut self, _: Resource<DynInputStream>, _len: u64) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn subscribe(&mut self, _: Resource<DynInputStream>) -> Result<Resource<DynPollable>> {
        self.hand_out(READY)
    }

    fn drop(&mut self, _: Resource<DynInputStream>) -> Result<()> {
        self.take_back();
        Ok(())
    }
}

impl streams::HostOutputStream for Wasi {
    fn check_write(&mut self, _: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(CHUNK)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.notes.write(output(&stream), &bytes);
        Ok(())
    }

    fn blocking_write_and_flush(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        self.write(stream, bytes)
    }

    fn flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn subscribe(&mut self, _: Resource<DynOutputStream>) -> Result<Resource<DynPollable>> {
        self.hand_out(READY)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        if len > CHUNK {
            return Err(StreamError::Trap(format_err!("{len} zeroes to write, more than the {CHUNK} allowed")));
        }
        let zeroes = vec![0; usize::try_from(len).unwrap_or_default()];
        self.write(stream, zeroes)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        self.write_zeroes(stream, len)
    }

    fn splice(&mut self, _: Resource<DynOutputStream>, _: Resource<DynInputStream>, _len: u64) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn blocking_splice(
        &mut self,
        _: Resource<DynOutputStream>,
        _: Resource<DynInputStream>,
        _len: u64,
    ) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn drop(&mut self, _: Resource<DynOutputStream>) -> Result<()> {
        self.take_back();
        Ok(())
    }
}
