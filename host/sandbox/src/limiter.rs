//! Limits an instance's allocations in the host: linear memory over all memories of the component, tables, instances.

use wasmtime::ResourceLimiter;
use windlass_core::contract::{CallFailure, Limits};

/// Maximum number of memories, of any size; wasmtime's own state for each is small. Each instance of a composed
/// component has a few.
const MEMORIES: usize = 64;
/// Maximum number of tables, of any size; wasmtime's own state for each is small. Each instance of a composed component
/// has a few.
const TABLES: usize = 1024;

/// Permits growth until a limit is reached, and records the last rejection.
pub(crate) struct Limiter {
    /// The limits of the call.
    pub(crate) limits: Limits,
    /// Bytes of linear memory so far; memories do not shrink, so this is also the peak.
    pub(crate) memory: u64,
    table_elements: usize,
    /// The last allocation that was rejected.
    pub(crate) refused: Option<CallFailure>,
}

impl Limiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), memory: 0, table_elements: 0, refused: None }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The component's own bound applies, or that of its slot in wasmtime's pool; this limiter does not.
            return Ok(false);
        }
        let wanted = self.memory.saturating_add(desired.saturating_sub(current) as u64);
        if wanted > self.limits.memory {
            // This is not an error: a garbage-collected language may still find free memory.
            self.refused = Some(CallFailure::Memory(self.limits.memory));
            return Ok(false);
        }
        self.memory = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let wanted = self.table_elements.saturating_add(desired.saturating_sub(current));
        if wanted > self.limits.table_elements {
            self.refused = Some(CallFailure::TableElements(self.limits.table_elements));
            return Ok(false);
        }
        self.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(memory: u64, table_elements: usize) -> Limiter {
        Limiter::new(&Limits { memory, table_elements, ..Limits::default() })
    }

    #[test]
    fn memory_limit_applies_to_the_sum_of_all_memories() {
        let mut limiter = limiter(100, 0);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!((limiter.memory, limiter.refused), (100, Some(CallFailure::Memory(100))));
    }

    #[test]
    fn table_limit_applies_to_the_sum_of_all_tables() {
        let mut limiter = limiter(0, 100);
        assert!(limiter.table_growing(0, 60, None).unwrap());
        assert!(!limiter.table_growing(0, 60, None).unwrap());
        assert!(limiter.table_growing(60, 100, None).unwrap());
        assert_eq!(limiter.refused, Some(CallFailure::TableElements(100)));
    }

    #[test]
    fn growth_beyond_the_own_maximum_is_neither_counted_nor_reported_as_refused() {
        let mut limiter = limiter(100, 100);
        assert!(!limiter.memory_growing(0, 60, Some(50)).unwrap());
        assert!(!limiter.table_growing(0, 60, Some(50)).unwrap());
        assert_eq!((limiter.memory, &limiter.refused), (0, &None));
        assert!(limiter.table_growing(0, 100, None).unwrap());
    }
}
