//! The allocator of plugins: that of Rust's standard library, with a first region that is part of the component's initial memory.
//!
//! Every call runs in a new instance. The first growth of its memory costs the host two changes of page protection, which take
//! longer than the computation of many plugins.
#![allow(unsafe_code)]

#[cfg(target_feature = "atomics")]
compile_error!(
    "components have no threads: build without the feature `atomics`, or windlass-plugin without `allocator`"
);

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};

use dlmalloc::{Allocator, Dlmalloc};

/// Bytes, enough for requests and responses of the usual size. Pages that are not touched cost nothing.
const FIRST: usize = 256 * 1024;
const PAGE: usize = 64 * 1024;

/// The alignment is the largest that the allocator needs. The region is 16 bytes longer than what the allocator gets: if a later
/// region were adjacent, the allocator would merge the two.
#[repr(align(16))]
struct FirstRegion(UnsafeCell<[u8; FIRST + 16]>);

// A component without threads.
unsafe impl Sync for FirstRegion {}

static FIRST_REGION: FirstRegion = FirstRegion(UnsafeCell::new([0; FIRST + 16]));

/// The source of regions: the first region is static, and memory grows for others.
struct Regions {
    first_is_free: Cell<bool>,
}

unsafe impl Allocator for Regions {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if size <= FIRST && self.first_is_free.replace(false) {
            return (FIRST_REGION.0.get().cast(), FIRST, 0);
        }
        let pages = size.div_ceil(PAGE);
        match core::arch::wasm32::memory_grow(0, pages) {
            usize::MAX => (std::ptr::null_mut(), 0, 0),
            page => {
                let begin = page * PAGE;
                // No pointer can hold the end of the last page of the address space: the allocator gets 16 bytes less.
                let cut = if begin.wrapping_add(pages * PAGE) == 0 { 16 } else { 0 };
                (begin as *mut u8, pages * PAGE - cut, 0)
            }
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

struct Heap(UnsafeCell<Dlmalloc<Regions>>);

// A component without threads.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Regions { first_is_free: Cell::new(true) })));

impl Heap {
    /// Runs a function with the heap. The heap never calls its allocator, so this is not reentered.
    fn with<T>(&self, act: impl FnOnce(&mut Dlmalloc<Regions>) -> T) -> T {
        act(unsafe { &mut *self.0.get() })
    }
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.with(|heap| unsafe { heap.free(block, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.with(|heap| unsafe { heap.realloc(block, layout.size(), layout.align(), size) })
    }
}
