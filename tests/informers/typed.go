package main

// The typed clients of all kinds that the server serves and this client-go has:
//
//	informers typed -kubeconfig FILE -bodies FILE
//
// Each verb goes over protobuf, and what it answers is compared with the object as JSON. Prints
// "typed PATH" for a collection that was gone through, and "untyped PATH" for one without a client.

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A status for each resource that has one, by "RESOURCE.GROUP".
//
//go:embed statuses.json
var statusesText []byte

var background = context.Background()

// The typed client of one collection. What it has is called by name: each has types of its own.
type typed struct {
	path   string
	client reflect.Value
}

type groupClient interface{ RESTClient() rest.Interface }

var (
	typeOfGroup     = reflect.TypeFor[groupClient]()
	typeOfDiscovery = reflect.TypeFor[discovery.DiscoveryInterface]()
)

// All typed clients of a set, by the paths of their collections.
func typedClients(config *rest.Config) map[string]typed {
	set, err := kubernetes.NewForConfig(config)
	must(err, "the clients")
	found := map[string]typed{}
	groups := reflect.ValueOf(set)
	for number := range groups.NumMethod() {
		method := groups.Method(number).Type()
		isGroup := method.NumIn() == 0 && method.NumOut() == 1 && method.Out(0).Implements(typeOfGroup)
		if !isGroup || method.Out(0).Implements(typeOfDiscovery) {
			continue
		}
		group := groups.Method(number).Call(nil)[0].Elem()
		version := group.Interface().(groupClient).RESTClient().APIVersion()
		for number := range group.NumMethod() {
			name := group.Type().Method(number).Name
			var arguments []reflect.Value
			namespaced := group.Method(number).Type().NumIn() == 1
			if namespaced {
				arguments = append(arguments, reflect.ValueOf(namespace))
			}
			if name == "RESTClient" {
				continue
			}
			client := group.Method(number).Call(arguments)[0]
			path := pathOf(version.WithResource(strings.ToLower(name)), namespaced)
			found[path] = typed{path, client}
		}
	}
	return found
}

func (t typed) has(verb string) bool {
	return t.client.MethodByName(verb).IsValid()
}

// What a verb takes as its number-th argument behind the context.
func (t typed) takes(verb string, number int) any {
	argument := t.client.MethodByName(verb).Type().In(number + 1)
	return reflect.New(argument.Elem()).Interface()
}

// Calls a verb. What it answers is nil when it answers an error alone.
func (t typed) try(verb string, arguments ...any) (any, error) {
	values := []reflect.Value{reflect.ValueOf(background)}
	for _, argument := range arguments {
		values = append(values, reflect.ValueOf(argument))
	}
	results := t.client.MethodByName(verb).Call(values)
	err, _ := results[len(results)-1].Interface().(error)
	if len(results) == 1 {
		return nil, err
	}
	return results[0].Interface(), err
}

func (t typed) call(verb string, arguments ...any) any {
	answer, err := t.try(verb, arguments...)
	must(err, t.path+": "+verb)
	return answer
}

func (t typed) object(verb string, arguments ...any) runtime.Object {
	return t.call(verb, arguments...).(runtime.Object)
}

// Two objects have to be the same. Lists that are empty and absent ones are equal.
func same(what string, got, want any) {
	got, want = withoutTypes(got), withoutTypes(want)
	if equality.Semantic.DeepEqual(got, want) {
		return
	}
	gotText, _ := json.Marshal(got)
	wantText, _ := json.Marshal(want)
	fail("%s\n     got %s\nexpected %s", what, gotText, wantText)
}

// Types of claims within objects are in JSON alone.
func withoutTypes(value any) any {
	switch of := value.(type) {
	case []runtime.Object:
		for number, object := range of {
			of[number] = withoutTypes(object).(runtime.Object)
		}
	case *appsv1.StatefulSet:
		of = of.DeepCopy()
		for number := range of.Spec.VolumeClaimTemplates {
			of.Spec.VolumeClaimTemplates[number].TypeMeta = metav1.TypeMeta{}
		}
		return of
	}
	return value
}

func metadataOf(object runtime.Object) metav1.Object {
	found, err := meta.Accessor(object)
	must(err, "metadata")
	return found
}

func note(object runtime.Object, annotation string) {
	of := metadataOf(object)
	annotations := of.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotation] = "yes"
	of.SetAnnotations(annotations)
}

// One collection, by protobuf and by JSON.
type exchange struct {
	packed, plain typed
	name          string
	events        watch.Interface
}

func (e exchange) what(verb string) string { return e.packed.path + ": " + verb }

func (e exchange) event(verb string, expected watch.EventType) runtime.Object {
	return nextEvent(e.what(verb), e.events, expected)
}

func nextEvent(what string, events watch.Interface, expected watch.EventType) runtime.Object {
	select {
	case event, open := <-events.ResultChan():
		if !open || event.Type != expected {
			fail("%s: not %s, but %v %v", what, expected, open, event)
		}
		return event.Object
	case <-time.After(30 * time.Second):
		fail("%s: no event", what)
		return nil
	}
}

// What changed the object was answered with what is there now, and watches were told of it.
func (e exchange) changed(verb string, answer runtime.Object) {
	now := e.plain.object("Get", e.name, metav1.GetOptions{})
	same(e.what(verb), answer, now)
	same(e.what(verb+", watched"), e.event(verb, watch.Modified), now)
}

func (e exchange) only() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + e.name}
}

func (e exchange) read() {
	got := e.packed.object("Get", e.name, metav1.GetOptions{})
	same(e.what("Get"), got, e.plain.object("Get", e.name, metav1.GetOptions{}))
	items := func(of typed) []runtime.Object {
		items, err := meta.ExtractList(of.object("List", e.only()))
		must(err, e.what("List"))
		return items
	}
	packed := items(e.packed)
	if len(packed) != 1 {
		fail("%s has %d items", e.what("List"), len(packed))
	}
	same(e.what("List"), packed, items(e.plain))
	options, yes := e.only(), true
	options.SendInitialEvents = &yes
	options.AllowWatchBookmarks = true
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	events := e.packed.call("Watch", options).(watch.Interface)
	same(e.what("Watch"), nextEvent(e.what("Watch"), events, watch.Added), got)
	mark := metadataOf(nextEvent(e.what("Watch"), events, watch.Bookmark))
	if mark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		fail("%s: the bookmark is %v", e.what("Watch"), mark)
	}
	events.Stop()
}

func (e exchange) refusals(sent runtime.Object) {
	if _, err := e.packed.try("Create", sent, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		fail("%s: the second is answered by %v", e.what("Create"), err)
	}
	if _, err := e.packed.try("Get", "nothing", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		fail("%s: what isn't there is answered by %v", e.what("Get"), err)
	}
}

func (e exchange) update() {
	object := e.packed.object("Get", e.name, metav1.GetOptions{})
	note(object, "updated")
	e.changed("Update", e.packed.object("Update", object, metav1.UpdateOptions{}))
	object.(metav1.Object).SetUID("another")
	if _, err := e.packed.try("Update", object, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		fail("%s: another is answered by %v", e.what("Update"), err)
	}
}

func (e exchange) updateStatus(of collection, statuses map[string]json.RawMessage) {
	resource := of.resource.GroupResource().String()
	if !e.packed.has("UpdateStatus") {
		return
	}
	status, there := statuses[resource]
	if !there {
		fail("%s has no status in statuses.json", resource)
	}
	object := e.packed.object("Get", e.name, metav1.GetOptions{})
	wrapped, _ := json.Marshal(map[string]json.RawMessage{"status": status})
	must(json.Unmarshal(wrapped, object), resource)
	e.changed("UpdateStatus", e.packed.object("UpdateStatus", object, metav1.UpdateOptions{}))
	e.apply("ApplyStatus", map[string]any{
		"apiVersion": of.resource.GroupVersion().String(),
		"kind":       reflect.TypeOf(object).Elem().Name(),
		"metadata":   map[string]any{"name": e.name, "annotations": map[string]any{"status": "yes"}},
		"status":     status,
	})
}

func (e exchange) apply(verb string, body any) {
	configuration := e.packed.takes(verb, 0)
	text, err := json.Marshal(body)
	must(err, e.what(verb))
	must(json.Unmarshal(text, configuration), e.what(verb))
	options := metav1.ApplyOptions{FieldManager: "applier", Force: true}
	e.changed(verb, e.packed.object(verb, configuration, options))
}

func (e exchange) patch(body json.RawMessage) {
	patches := []struct {
		form types.PatchType
		text string
	}{
		{types.MergePatchType, `{"metadata":{"annotations":{"merged":"yes","updated":null}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"annotations":{"strategic":"yes"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]`},
	}
	for _, patch := range patches {
		options := metav1.PatchOptions{}
		answer := e.packed.object("Patch", e.name, patch.form, []byte(patch.text), options)
		e.changed("Patch "+string(patch.form), answer)
	}
	e.apply("Apply", applied(body))
}

// What is applied of a body. In affinities and constraints of pods the server adds selectors to what
// was sent, which can't be taken away.
func applied(body json.RawMessage) map[string]any {
	var object map[string]any
	must(json.Unmarshal(body, &object), string(body))
	if object["kind"] == "Pod" {
		delete(object["spec"].(map[string]any), "affinity")
		delete(object["spec"].(map[string]any), "topologySpreadConstraints")
	}
	object["metadata"].(map[string]any)["annotations"] = map[string]any{"applied": "yes"}
	return object
}

func (e exchange) scale() {
	if !e.packed.has("UpdateScale") {
		return
	}
	scale := e.packed.object("GetScale", e.name, metav1.GetOptions{})
	same(e.what("GetScale"), scale, e.plain.object("GetScale", e.name, metav1.GetOptions{}))
	value := reflect.ValueOf(scale).Elem()
	replicas := value.FieldByName("Spec").FieldByName("Replicas")
	replicas.SetInt(replicas.Int() + 1)
	updated := e.packed.object("UpdateScale", e.name, scale, metav1.UpdateOptions{})
	same(e.what("UpdateScale"), updated, e.plain.object("GetScale", e.name, metav1.GetOptions{}))
	e.event("UpdateScale", watch.Modified)
}

func (e exchange) deletion(sent runtime.Object) {
	options := func(preconditions *metav1.Preconditions) metav1.DeleteOptions {
		now, policy := int64(0), metav1.DeletePropagationBackground
		return metav1.DeleteOptions{
			GracePeriodSeconds: &now, PropagationPolicy: &policy, Preconditions: preconditions,
		}
	}
	another := metav1.NewUIDPreconditions("another")
	if _, err := e.packed.try("Delete", e.name, options(another)); !apierrors.IsConflict(err) {
		fail("%s: the deletion of another is answered by %v", e.what("Delete"), err)
	}
	uid := metadataOf(e.plain.object("Get", e.name, metav1.GetOptions{})).GetUID()
	e.packed.call("Delete", e.name, options(&metav1.Preconditions{UID: &uid}))
	e.gone("Delete")
	if !e.packed.has("DeleteCollection") {
		return
	}
	note(sent, "again")
	e.packed.object("Create", sent, metav1.CreateOptions{})
	e.event("Create", watch.Added)
	e.packed.call("DeleteCollection", options(nil), e.only())
	e.gone("DeleteCollection")
}

// Waits until the object is gone. A namespace is shown as terminating before.
func (e exchange) gone(verb string) {
	for range 10 {
		select {
		case event := <-e.events.ResultChan():
			if event.Type == watch.Deleted {
				return
			}
		case <-time.After(30 * time.Second):
			fail("%s: no event", e.what(verb))
		}
	}
	fail("%s: the object stays", e.what(verb))
}

func (e exchange) run(of collection, body json.RawMessage, statuses map[string]json.RawMessage) {
	sent := e.packed.takes("Create", 0).(runtime.Object)
	must(json.Unmarshal(body, sent), of.path)
	created := e.packed.object("Create", sent.DeepCopyObject(), metav1.CreateOptions{})
	same(e.what("Create"), created, e.plain.object("Get", e.name, metav1.GetOptions{}))
	options := e.only()
	options.ResourceVersion = metadataOf(created).GetResourceVersion()
	e.events = e.packed.call("Watch", options).(watch.Interface)
	e.read()
	e.refusals(sent.DeepCopyObject())
	e.update()
	e.updateStatus(of, statuses)
	e.patch(body)
	e.scale()
	e.deletion(sent)
	e.events.Stop()
}

func typedMain() {
	file := flag.String("bodies", "", "objects of all kinds, by the paths of their collections")
	flag.Parse()
	config := configured()
	packed, plain := typedClients(over(config, asProtobuf)), typedClients(over(config, asJSON))
	bodies := bodies(*file)
	var statuses map[string]json.RawMessage
	must(json.Unmarshal(statusesText, &statuses), "statuses.json")
	for _, of := range collections(config) {
		client, there := packed[of.path]
		if !there {
			fmt.Println("untyped", of.path)
			continue
		}
		body := bodies[of.path]
		if body == nil {
			fail("%s has no body", of.path)
		}
		e := exchange{packed: client, plain: plain[of.path], name: nameIn(body)}
		e.run(of, body, statuses)
		fmt.Println("typed", of.path)
	}
}
