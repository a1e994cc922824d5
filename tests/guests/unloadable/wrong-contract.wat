;; Exports a future version of the contract. The Plugin's condition names the versions that the host supports, and the
;; one that it found.

(component
  (instance $reconciler)
  (export "windlass:plugin/reconciler@0.9.0" (instance $reconciler)))
