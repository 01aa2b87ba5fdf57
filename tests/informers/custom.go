package main

// Clients of a custom resource, Lamp of example.com, that may be undefined at the start:
//
//	informers custom -kubeconfig FILE
//	(KUBE_FEATURE_WatchListClient=true|false)
//
// Reads commands from its input, one a line, and prints a line for each that it has done:
//
//	mapping          "mapping GROUP/VERSION RESOURCE SCOPE" of the kind, or "no mapping"
//	reset            forgets discovery
//	start VERSION    starts a dynamic and a metadata informer, and waits for both
//	equal VERSION    "equal VERSION NUMBER" once both informers have the objects of a list
//	verbs VERSION    every verb of the dynamic client
//	scale VERSION    the scale client

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
)

const customGroup = "example.com"

// An informer, and the events of its handlers.
type followed struct {
	form     string
	informer cache.SharedIndexInformer
	told     *told
}

func (f followed) holds(expected map[string]uint64) bool {
	store := map[string]uint64{}
	for _, object := range f.informer.GetStore().List() {
		store[object.(metav1.Object).GetName()] = version(object.(metav1.Object))
	}
	f.told.Lock()
	defer f.told.Unlock()
	return maps.Equal(store, expected) && maps.Equal(f.told.versions, expected)
}

// The clients of the custom resource, and its informers by their version.
type custom struct {
	dynamic   dynamic.Interface
	bare      dynamic.Interface
	metadata  metadata.Interface
	packed    metadata.Interface
	mapper    meta.ResettableRESTMapper
	scales    scale.ScalesGetter
	informers map[string][]followed
}

func newCustom(config *rest.Config) *custom {
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	must(err, "the discovery client")
	plain, err := dynamic.NewForConfig(over(config, asJSON))
	must(err, "the dynamic client")
	// Informers ask for a resource that is not served, too, which a text answers.
	config = rest.CopyConfig(config)
	config.QPS = -1
	bare, err := dynamic.NewForConfig(config)
	must(err, "the client of the dynamic informer")
	only, err := metadata.NewForConfig(config)
	must(err, "the client of the metadata informer")
	packed, err := metadata.NewForConfig(answered(config, asProtobuf))
	must(err, "the metadata client")
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(asked))
	kinds := scale.NewDiscoveryScaleKindResolver(asked)
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, kinds)
	must(err, "the scale client")
	return &custom{plain, bare, only, packed, mapper, scales, map[string][]followed{}}
}

func customResource(served string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: customGroup, Version: served, Resource: "lamps"}
}

func (c *custom) lamps(served string) dynamic.ResourceInterface {
	return c.dynamic.Resource(customResource(served)).Namespace(namespace)
}

func (c *custom) mapping() {
	kind := schema.GroupKind{Group: customGroup, Kind: "Lamp"}
	mapping, err := c.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		fmt.Println("no mapping")
		return
	}
	must(err, "the mapping")
	resource := mapping.Resource
	fmt.Println("mapping", resource.GroupVersion(), resource.Resource, mapping.Scope.Name())
}

func (c *custom) start(served string) {
	stop := make(chan struct{})
	resource := customResource(served)
	whole := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.bare, 0, namespace, nil)
	parts := metadatainformer.NewFilteredSharedInformerFactory(c.metadata, 0, namespace, nil)
	started := []followed{
		{form: "dynamic", informer: whole.ForResource(resource).Informer()},
		{form: "metadata", informer: parts.ForResource(resource).Informer()},
	}
	registrations := make([]cache.InformerSynced, len(started))
	for number := range started {
		told, registration := handled(started[number].informer)
		started[number].told = told
		registrations[number] = registration.HasSynced
	}
	whole.Start(stop)
	parts.Start(stop)
	if !cache.WaitForCacheSync(stop, registrations...) {
		fail("the caches were not filled")
	}
	c.informers[served] = started
	fmt.Println("synced", served)
}

func (c *custom) equal(served string) {
	list, err := c.lamps(served).List(background, metav1.ListOptions{})
	must(err, "the list")
	expected := map[string]uint64{}
	for number := range list.Items {
		expected[list.Items[number].GetName()] = version(&list.Items[number])
	}
	for _, followed := range c.informers[served] {
		for tries := 0; !followed.holds(expected); tries++ {
			if tries == 1000 {
				fail("the %s informer of %s has not %v", followed.form, served, expected)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	fmt.Println("equal", served, len(expected))
}

func newLamp(served, name, colour string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": customGroup + "/" + served,
		"kind":       "Lamp",
		"metadata":   map[string]any{"name": name, "labels": map[string]any{"by": "verbs"}},
		"spec":       map[string]any{"colour": colour},
	}}
}

func set(object *unstructured.Unstructured, value any, fields ...string) *unstructured.Unstructured {
	object = object.DeepCopy()
	must(unstructured.SetNestedField(object.Object, value, fields...), strings.Join(fields, "."))
	return object
}

func at(object *unstructured.Unstructured, fields ...string) any {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, fields...)
	must(err, strings.Join(fields, "."))
	return value
}

// One object, its client, and a watch of it.
type changed struct {
	client dynamic.ResourceInterface
	events watch.Interface
}

// A write was answered with the object that is there now, and the watch shows it.
func (c changed) is(verb string, answer *unstructured.Unstructured, err error) *unstructured.Unstructured {
	must(err, verb)
	now, err := c.client.Get(background, answer.GetName(), metav1.GetOptions{})
	must(err, verb)
	same(verb, answer, now)
	same(verb+", watched", nextEvent(verb, c.events, watch.Modified), now)
	return now
}

// The metadata client, which asks for protobuf, is answered with the metadata of an object.
func (c *custom) parts(served string, object *unstructured.Unstructured) {
	text, err := object.MarshalJSON()
	must(err, "the object")
	var expected metav1.PartialObjectMetadata
	must(json.Unmarshal(text, &expected), "the object")
	client := c.packed.Resource(customResource(served)).Namespace(namespace)
	got, err := client.Get(background, object.GetName(), metav1.GetOptions{})
	must(err, "the metadata")
	same("the metadata", got.ObjectMeta, expected.ObjectMeta)
	list, err := client.List(background, metav1.ListOptions{LabelSelector: "by=verbs"})
	must(err, "the list of metadata")
	if len(list.Items) != 1 {
		fail("the list of metadata has %d items", len(list.Items))
	}
	same("the list of metadata", list.Items[0].ObjectMeta, expected.ObjectMeta)
}

func (c *custom) verbs(served string) {
	client := c.lamps(served)
	created, err := client.Create(background, newLamp(served, "verbs", "red"), metav1.CreateOptions{})
	must(err, "Create")
	if at(created, "spec", "watts") != int64(5) {
		fail("Create: the default is absent: %v", created)
	}
	c.parts(served, created)
	_, err = client.Create(background, newLamp(served, "verbs", "red"), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		fail("Create: the second is answered by %v", err)
	}
	_, err = client.Create(background, newLamp(served, "other", "a colour that is too long"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		fail("Create: the invalid one is answered by %v", err)
	}
	options := metav1.ListOptions{
		LabelSelector: "by=verbs", ResourceVersion: created.GetResourceVersion(),
	}
	events, err := client.Watch(background, options)
	must(err, "Watch")
	changes(served, created, changed{client, events})
	uid := created.GetUID()
	must(client.Delete(background, "verbs", metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid},
	}), "Delete")
	nextEvent("Delete", events, watch.Deleted)
	_, err = client.Create(background, newLamp(served, "another", "red"), metav1.CreateOptions{})
	must(err, "Create")
	nextEvent("Create", events, watch.Added)
	all := metav1.ListOptions{LabelSelector: "by=verbs"}
	must(client.DeleteCollection(background, metav1.DeleteOptions{}, all), "DeleteCollection")
	nextEvent("DeleteCollection", events, watch.Deleted)
	_, err = client.Get(background, "another", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		fail("Get: the deleted one is answered by %v", err)
	}
	events.Stop()
	fmt.Println("verbs", served)
}

// Updates, patches and applies the created object.
func changes(served string, created *unstructured.Unstructured, of changed) {
	client := of.client
	updated, err := client.Update(background, set(created, "blue", "spec", "colour"), metav1.UpdateOptions{})
	updated = of.is("Update", updated, err)
	_, err = client.Update(background, set(created, "green", "spec", "colour"), metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		fail("Update: the stale one is answered by %v", err)
	}
	lit := set(updated, map[string]any{"lit": true}, "status")
	written, err := client.UpdateStatus(background, lit, metav1.UpdateOptions{})
	written = of.is("UpdateStatus", written, err)
	if written.GetGeneration() != updated.GetGeneration() || at(written, "status", "lit") != true {
		fail("UpdateStatus: %v", written)
	}
	patches := []struct {
		form types.PatchType
		text string
	}{
		{types.MergePatchType, `{"spec":{"watts":7}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/watts","value":8}]`},
	}
	for _, patch := range patches {
		text := []byte(patch.text)
		patched, err := client.Patch(background, "verbs", patch.form, text, metav1.PatchOptions{})
		of.is(string(patch.form), patched, err)
	}
	strategic := types.StrategicMergePatchType
	_, err = client.Patch(background, "verbs", strategic, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		fail("a strategic merge patch is answered by %v", err)
	}
	applier := metav1.ApplyOptions{FieldManager: "applier"}
	body := newLamp(served, "verbs", "white")
	if _, err = client.Apply(background, "verbs", body, applier); !apierrors.IsConflict(err) {
		fail("Apply: the fields of another are answered by %v", err)
	}
	applier.Force = true
	applied, err := client.Apply(background, "verbs", body, applier)
	of.is("Apply", applied, err)
	status := newLamp(served, "verbs", "white")
	delete(status.Object, "spec")
	status = set(status, map[string]any{"lit": false}, "status")
	applied, err = client.ApplyStatus(background, "verbs", status, applier)
	applied = of.is("ApplyStatus", applied, err)
	if at(applied, "spec", "colour") != "white" || at(applied, "status", "lit") != false {
		fail("ApplyStatus: %v", applied)
	}
}

func (c *custom) scale(served string) {
	client := c.lamps(served)
	_, err := client.Create(background, newLamp(served, "scaled", "red"), metav1.CreateOptions{})
	must(err, "Create")
	resource := customResource(served)
	scales := c.scales.Scales(namespace)
	found, err := scales.Get(background, resource.GroupResource(), "scaled", metav1.GetOptions{})
	must(err, "the Scale")
	found.Spec.Replicas = 11
	updated, err := scales.Update(background, resource.GroupResource(), found, metav1.UpdateOptions{})
	must(err, "the update of the Scale")
	isScaled("an update", client, updated, 11)
	patch := []byte(`{"spec":{"replicas":12}}`)
	patched, err := scales.Patch(background, resource, "scaled", types.MergePatchType, patch, metav1.PatchOptions{})
	must(err, "the patch of the Scale")
	isScaled("a patch", client, patched, 12)
	must(client.Delete(background, "scaled", metav1.DeleteOptions{}), "Delete")
	fmt.Println("scaled", served)
}

// The Scale that is answered and the object have this many replicas.
func isScaled(what string, client dynamic.ResourceInterface, answer *autoscalingv1.Scale, replicas int32) {
	now, err := client.Get(background, "scaled", metav1.GetOptions{})
	must(err, what)
	if answer.Spec.Replicas != replicas || at(now, "spec", "watts") != int64(replicas) {
		fail("%s of the Scale: %v, %v", what, answer, now)
	}
}

func customMain() {
	flag.Parse()
	c := newCustom(configured())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, served, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "mapping":
			c.mapping()
		case "reset":
			c.mapper.Reset()
			fmt.Println("reset")
		case "start":
			c.start(served)
		case "equal":
			c.equal(served)
		case "verbs":
			c.verbs(served)
		case "scale":
			c.scale(served)
		default:
			fail("there is no %q", command)
		}
	}
}
