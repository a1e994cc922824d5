;; Speaks a contract that is still to come. The Plugin says which one the host knows, and what it found.

(component
  (instance $reconciler)
  (export "windlass:plugin/reconciler@0.2.0" (instance $reconciler)))
