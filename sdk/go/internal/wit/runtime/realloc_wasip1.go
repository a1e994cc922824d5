package wit_runtime

import "unsafe"

// The host, and the adapter of WASI, get memory here. Nothing is ever reallocated: they know the sizes.
//
//go:wasmexport cabi_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if oldSize != 0 {
		panic("cabi_realloc: memory does not grow")
	}
	if !isStarted {
		return allocateEarly(align, size)
	}
	pointer := allocate(size, align)
	kept = append(kept, pointer)
	return pointer
}

// allocateEarly runs before the Go runtime can allocate.
//
//go:nosplit
func allocateEarly(align, size uintptr) unsafe.Pointer {
	start := uintptr(unsafe.Pointer(&early))
	at := (start+earlyUsed+align-1)&^(align-1) - start
	if at+size > uintptr(len(early)) {
		return nil
	}
	earlyUsed = at + size
	return unsafe.Pointer(&early[at])
}
