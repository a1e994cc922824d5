;; Declares a memory that threads share, which the host's engine does not support. The compiler rejects it.

(component
  (core module $module
    (memory 1 1 shared)
    (func (export "describe"))
    (func (export "reconcile")))
  (core instance $instance (instantiate $module))
  (func $describe (canon lift (core func $instance "describe")))
  (func $reconcile (canon lift (core func $instance "reconcile")))
  (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
  (export "windlass:plugin/reconciler@0.1.0" (instance $reconciler)))
