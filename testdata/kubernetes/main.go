// Kubernetes checks that files are manifests of DaemonSets, in which Kubernetes knows every
// field: kubernetes FILE...
package main

import (
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	for _, file := range os.Args[1:] {
		if err := check(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var set apps.DaemonSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		return err
	}
	selector, labels := set.Spec.Selector, set.Spec.Template.Labels
	switch {
	case set.APIVersion != apps.SchemeGroupVersion.String() || set.Kind != "DaemonSet" || set.Name == "":
		return fmt.Errorf("it is %s %s %q, not a DaemonSet with a name", set.APIVersion, set.Kind, set.Name)
	case selector == nil || len(selector.MatchLabels) == 0:
		return fmt.Errorf("it selects no pods")
	case len(set.Spec.Template.Spec.Containers) == 0:
		return fmt.Errorf("it has no containers")
	}
	for name, value := range selector.MatchLabels {
		if labels[name] != value {
			return fmt.Errorf("its pods do not have the label %s=%s", name, value)
		}
	}
	volumes := make(map[string]bool)
	for _, v := range set.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				return fmt.Errorf("container %s mounts %s, which is not a volume", c.Name, m.Name)
			}
		}
	}
	return nil
}
