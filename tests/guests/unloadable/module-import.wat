;; Imports a core module, which only a user who links components by hand could provide. The Plugin's condition reports
;; that it cannot be linked.

(component
  (import "module" (core module $module (export "describe" (func)) (export "reconcile" (func))))
  (core instance $instance (instantiate $module))
  (func $describe (canon lift (core func $instance "describe")))
  (func $reconcile (canon lift (core func $instance "reconcile")))
  (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
  (export "windlass:plugin/reconciler@0.1.0" (instance $reconciler)))
