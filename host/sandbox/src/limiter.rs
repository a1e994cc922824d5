//! What an instance may allocate in the host: linear memory over all memories of the component, tables, instances.

use wasmtime::ResourceLimiter;

/// Python components have about 100 core instances.
const INSTANCES: usize = 512;
const MEMORIES: usize = 64;
const TABLES: usize = 512;
/// Elements over all tables, of 8 bytes each in the host.
const TABLE_ELEMENTS: usize = 1024 * 1024;

/// Allows growth until a sum is reached, and remembers that it refused.
pub(crate) struct Limiter {
    limit: u64,
    memory: u64,
    table_elements: usize,
    refused: bool,
}

impl Limiter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, memory: 0, table_elements: 0, refused: false }
    }

    /// Bytes of linear memory so far; memories do not shrink, so this is also the peak.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether the guest wanted more memory than it may have.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The component's own bound, or that of its slot: not what this limiter is asked for.
            return Ok(false);
        }
        let wanted = self.memory.saturating_add(desired.saturating_sub(current) as u64);
        if wanted > self.limit {
            // Not an error: a language with a garbage collector may yet find room.
            self.refused = true;
            return Ok(false);
        }
        self.memory = wanted;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let wanted = self.table_elements.saturating_add(desired.saturating_sub(current));
        if wanted > TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = wanted;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
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

    #[test]
    fn the_limit_holds_for_the_sum_of_all_memories() {
        let mut limiter = Limiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        assert_eq!((limiter.memory(), limiter.refused()), (100, true));
    }

    #[test]
    fn tables_are_bounded_too() {
        let mut limiter = Limiter::new(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
    }
}
