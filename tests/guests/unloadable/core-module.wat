;; A core module, which is what a compiler gives before anybody makes a component of it. The Plugin says so, and what
;; to do.

(module (func (export "describe")))
