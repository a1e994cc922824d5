;; Starts with a table of a thousand million entries, which are 8 GB for the host. The host refuses to create it.

(component
  (core module $module
    (table 1000000000 funcref)
    (func (export "describe"))
    (func (export "reconcile")))
  (core instance $instance (instantiate $module))
  (func $describe (canon lift (core func $instance "describe")))
  (func $reconcile (canon lift (core func $instance "reconcile")))
  (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
  (export "windlass:plugin/reconciler@0.1.0" (instance $reconciler)))
