;; A core module, as a compiler produces it before a tool makes it a component. The Plugin's condition reports that, and
;; what to do.

(module (func (export "describe")))
