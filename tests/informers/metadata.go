package main

// The metadata client for all kinds that the server serves, typed or not:
//
//	informers metadata -kubeconfig FILE -bodies FILE
//
// It asks for protobuf on its own. What it answers is compared with the metadata of the object as
// JSON. Prints "metadata PATH" for a collection that was gone through.

import (
	"encoding/json"
	"flag"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// One collection, and the object in it.
type described struct {
	collection
	name   string
	client metadata.ResourceInterface
	plain  rest.Interface
	events watch.Interface
}

// The metadata of the object that is there now.
func (d described) now() metav1.ObjectMeta {
	text, err := d.plain.Get().AbsPath(d.path, d.name).Do(background).Raw()
	must(err, d.path)
	var object metav1.PartialObjectMetadata
	must(json.Unmarshal(text, &object), d.path)
	if d.resource.Resource == "daemonsets" {
		// Whole objects alone show it.
		delete(object.Annotations, "deprecated.daemonset.template.generation")
		if len(object.Annotations) == 0 {
			object.Annotations = nil
		}
	}
	return object.ObjectMeta
}

// The APIService of a definition that is gone may be there for a moment.
func (d described) create(body json.RawMessage) {
	for tries := 0; ; tries++ {
		request := d.plain.Post().AbsPath(d.path).SetHeader("Content-Type", asJSON).Body([]byte(body))
		err := request.Do(background).Error()
		if !apierrors.IsAlreadyExists(err) || tries == 300 {
			must(err, d.path)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Waits until the server has written the status of a definition or an APIService, which it does by
// itself.
func (d described) settle() {
	written := map[string]string{"customresourcedefinitions": "Established", "apiservices": "Available"}
	kind, isWritten := written[d.resource.Resource]
	if !isWritten {
		return
	}
	for tries := 0; tries < 300; tries++ {
		text, err := d.plain.Get().AbsPath(d.path, d.name).Do(background).Raw()
		must(err, d.path)
		var object struct{ Status struct{ Conditions []metav1.Condition } }
		must(json.Unmarshal(text, &object), d.path)
		condition := meta.FindStatusCondition(object.Status.Conditions, kind)
		if condition != nil && (condition.Status == metav1.ConditionTrue || kind == "Available") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fail("%s: the condition %s is not there", d.path, kind)
}

func (d described) only() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + d.name}
}

func (d described) is(what string, answer *metav1.PartialObjectMetadata) {
	same(d.path+": "+what, answer.ObjectMeta, d.now())
}

func (d described) event(expected watch.EventType) *metav1.PartialObjectMetadata {
	return nextEvent(d.path, d.events, expected).(*metav1.PartialObjectMetadata)
}

func (d described) read() {
	got, err := d.client.Get(background, d.name, metav1.GetOptions{})
	must(err, d.path)
	d.is("Get", got)
	list, err := d.client.List(background, d.only())
	must(err, d.path)
	if len(list.Items) != 1 || list.ResourceVersion == "" {
		fail("%s: the list is %v", d.path, list)
	}
	same(d.path+": List", list.Items[0].ObjectMeta, d.now())
	_, err = d.client.Get(background, "nothing", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		fail("%s: what isn't there is answered by %v", d.path, err)
	}
}

func (d described) patch() {
	patches := map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"annotations":{"merged":"yes"}}}`,
		types.StrategicMergePatchType: `{"metadata":{"annotations":{"strategic":"yes"}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels","value":{"json":"yes"}}]`,
	}
	for form, text := range patches {
		patched, err := d.client.Patch(background, d.name, form, []byte(text), metav1.PatchOptions{})
		must(err, d.path+": "+string(form))
		d.is(string(form), patched)
		d.is(string(form)+", watched", d.event(watch.Modified))
	}
}

func (d described) deletion(body json.RawMessage) {
	now := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now}
	another := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}
	if err := d.client.Delete(background, d.name, another); !apierrors.IsConflict(err) {
		fail("%s: the deletion of another is answered by %v", d.path, err)
	}
	must(d.client.Delete(background, d.name, options), d.path+": Delete")
	d.gone()
	if d.resource.Resource == "namespaces" {
		// There is no such verb.
		return
	}
	d.create(body)
	d.event(watch.Added)
	must(d.client.DeleteCollection(background, options, d.only()), d.path+": DeleteCollection")
	d.gone()
}

func (d described) gone() {
	for {
		select {
		case event := <-d.events.ResultChan():
			if event.Type == watch.Deleted {
				return
			}
		case <-time.After(30 * time.Second):
			fail("%s: the object stays", d.path)
		}
	}
}

func metadataMain() {
	file := flag.String("bodies", "", "objects of all kinds, by the paths of their collections")
	flag.Parse()
	config := configured()
	client, err := metadata.NewForConfig(answered(config, asProtobuf))
	must(err, "the metadata client")
	set, err := kubernetes.NewForConfig(over(config, asJSON))
	must(err, "the clients")
	bodies := bodies(*file)
	for _, of := range collections(config) {
		body := bodies[of.path]
		if body == nil {
			fail("%s has no body", of.path)
		}
		d := described{collection: of, name: nameIn(body), plain: set.CoreV1().RESTClient()}
		d.client = client.Resource(of.resource)
		if of.namespaced {
			d.client = client.Resource(of.resource).Namespace(namespace)
		}
		d.create(body)
		d.settle()
		options := d.only()
		options.ResourceVersion = d.now().ResourceVersion
		d.events, err = d.client.Watch(background, options)
		must(err, of.path)
		d.read()
		d.patch()
		d.deletion(body)
		d.events.Stop()
		fmt.Println("metadata", of.path)
	}
}
