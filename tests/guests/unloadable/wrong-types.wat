;; Exports the functions of the contract with other types. The Plugin's condition reports that they do not fit.

(component
  (core module $module
    (func (export "describe"))
    (func (export "reconcile")))
  (core instance $instance (instantiate $module))
  (func $describe (canon lift (core func $instance "describe")))
  (func $reconcile (canon lift (core func $instance "reconcile")))
  (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
  (export "windlass:plugin/reconciler@0.1.0" (instance $reconciler)))
