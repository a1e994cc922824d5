;; Exports a name that is a line of the host's log, with terminal escapes. Neither the log nor the Plugin contains it
;; unescaped.

(component
  (instance $empty)
  (export "a\0a\1b[2J2026-01-01T00:00:00Z  INFO windlass::audit: FORGED" (instance $empty)))
