package labels

import (
	"os"
	"regexp"
	"sync"
	"time"
)

// LogLinks is the directory in which Kubernetes links the log of each container by a name that
// tells its pod, its namespace, its name and its ID.
const LogLinks = "/var/log/containers"

// A pod is what a link says about a container.
type pod struct{ name, namespace, container string }

const (
	maxLinks  = 1 << 14         // names in the directory: a host runs some hundred containers
	patience  = 5 * time.Second // before the directory is read again for a container that it lacks
	readNames = 1 << 10         // names at a time
)

// link is PODNAME_NAMESPACE_CONTAINER-ID.log: the names in Kubernetes have no underscore.
// Compiling it takes some milliseconds.
var link = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9.-]{1,253})_([a-z0-9-]{1,63})_([a-z0-9-]{1,63})-([0-9a-f]{64})\.log$`)
})

// pods finds pods by their containers' IDs.
type pods struct {
	dir string

	mutex sync.Mutex
	known map[string]pod
	read  time.Time // when the directory was last read
}

// of returns the pod of a container; one without names if that is not known.
func (p *pods) of(id string) pod {
	if id == "" {
		return pod{}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if _, ok := p.known[id]; !ok && time.Since(p.read) >= patience {
		p.list()
	}
	return p.known[id]
}

// list reads the directory.
func (p *pods) list() {
	p.known, p.read = make(map[string]pod), time.Now()
	dir, err := os.Open(p.dir)
	if err != nil {
		return // this host is in no cluster
	}
	defer dir.Close()
	for len(p.known) < maxLinks {
		names, err := dir.Readdirnames(readNames)
		for _, name := range names {
			if m := link().FindStringSubmatch(name); m != nil {
				p.known[m[4]] = pod{name: m[1], namespace: m[2], container: m[3]}
			}
		}
		if err != nil {
			return
		}
	}
}
