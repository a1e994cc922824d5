package windlass

import _ "windlass.dev/plugin/internal/wit/plugin/wit_exports" // The exports of the component.
