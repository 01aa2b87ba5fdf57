package main

// What there is to test: the collections that the server serves, and an object for each.

import (
	"encoding/json"
	"os"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const namespace = "default"

type collection struct {
	path       string
	resource   schema.GroupVersionResource
	namespaced bool
}

// The path of a collection in a namespace, or of one without.
func pathOf(resource schema.GroupVersionResource, namespaced bool) string {
	path := "/apis/" + resource.GroupVersion().String()
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	if namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource.Resource
}

// All collections in which objects are created and from which they are listed, by their paths.
func collections(config *rest.Config) []collection {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	must(err, "the discovery client")
	_, lists, err := client.ServerGroupsAndResources()
	must(err, "discovery")
	var found []collection
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(err, list.GroupVersion)
		for _, resource := range list.APIResources {
			isWhole := !strings.Contains(resource.Name, "/")
			if isWhole && slices.Contains(resource.Verbs, "create") && slices.Contains(resource.Verbs, "list") {
				named := version.WithResource(resource.Name)
				path := pathOf(named, resource.Namespaced)
				found = append(found, collection{path, named, resource.Namespaced})
			}
		}
	}
	sort.Slice(found, func(a, b int) bool { return found[a].path < found[b].path })
	return found
}

// An object for each collection, by its path, from a file that has two for each: the smallest, and
// one with most fields.
func bodies(file string) map[string]json.RawMessage {
	text, err := os.ReadFile(file)
	must(err, file)
	var read map[string][2]json.RawMessage
	must(json.Unmarshal(text, &read), file)
	found := map[string]json.RawMessage{}
	for path, pair := range read {
		found[path] = pair[1]
		if strings.HasSuffix(path, "/namespaces") {
			// The other has finalizers that nobody takes away.
			found[path] = pair[0]
		}
	}
	return found
}

// The name that a body gives its object.
func nameIn(body json.RawMessage) string {
	var object metav1.PartialObjectMetadata
	must(json.Unmarshal(body, &object), string(body))
	return object.Name
}
