;; Loops in its start function, before any call. The host ends it at the deadline of the first call.

(component
  (core module $module
    (func $begin (loop (br 0)))
    (start $begin)
    (func (export "describe"))
    (func (export "reconcile")))
  (core instance $instance (instantiate $module))
  (func $describe (canon lift (core func $instance "describe")))
  (func $reconcile (canon lift (core func $instance "reconcile")))
  (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
  (export "windlass:plugin/reconciler@0.1.0" (instance $reconciler)))
