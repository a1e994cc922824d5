package admission

import _ "windlass.dev/plugin/internal/wit/admission/wit_exports" // The export of the component.
