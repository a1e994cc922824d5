// Package wit_runtime gives the generated bindings memory, and sets up the garbage collector for short calls.
package wit_runtime

import (
	"runtime"
	"runtime/debug"
	"unsafe"
)

// A call is short, and its memory is discarded as a whole after it, so nothing is collected until the memory comes near to the
// host's default limit of 64 MiB. A collection costs more than time: it reads the wall clock, for statistics, so the host cannot
// reuse the response. And while the host passes a request, the guest may not call the host, so a collection then would end it:
// requests are at most 16 MiB, and nothing else has been allocated yet.
const memoryLimit = 48 << 20

func init() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	isStarted = true
}

// isStarted: the Go runtime can allocate.
var isStarted bool

// kept keeps what the host writes from being collected: the host's pointers are numbers.
var kept []unsafe.Pointer

// early is memory for the adapter of WASI, which asks for 128 KiB before the Go runtime can allocate.
var (
	early     [192 << 10]byte
	earlyUsed uintptr
)

// Allocate returns memory that stays until the pinner unpins it.
func Allocate(pinner *runtime.Pinner, size, align uintptr) unsafe.Pointer {
	pointer := allocate(size, align)
	if pointer != nil {
		pinner.Pin(pointer)
	}
	return pointer
}

// Unpin frees what the host has passed for this call.
func Unpin() {
	kept = nil
}

func allocate(size, align uintptr) unsafe.Pointer {
	switch {
	case size == 0:
		return nil
	case align <= 1:
		return unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
	}
	// Alignments are at most 8.
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
}
