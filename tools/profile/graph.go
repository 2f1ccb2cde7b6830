package profile

import _ "embed"

// The interactive flame graph: graph.js and graph.css are the same in the SVG
// and in the HTML page, which add how each draws and what only it offers.
var (
	svgGraph  = interactive{graphStyle + svgStyle, graphScript + svgScript}
	htmlGraph = interactive{graphStyle + htmlStyle, graphScript + htmlScript}
)

// An interactive is what a file needs to be interactive without any other.
type interactive struct{ style, script string }

var (
	//go:embed graph.css
	graphStyle string
	//go:embed graph.js
	graphScript string
	//go:embed svg.css
	svgStyle string
	//go:embed svg.js
	svgScript string
	//go:embed html.css
	htmlStyle string
	//go:embed html.js
	htmlScript string
)
