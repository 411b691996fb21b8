// Calls of the official Go admin client, one a line of JSON: the part of the client, the method and its arguments.
// Each is answered by a line with what the method returned, or with its error.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/apache/pulsar-client-go/pulsaradmin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
)

type call struct {
	URL       string            `json:"url"`
	Part      string            `json:"part"`
	Method    string            `json:"method"`
	Arguments []json.RawMessage `json:"arguments"`
}

type answer struct {
	Returned []any  `json:"returned"`
	Error    string `json:"error"`
}

// Names and ids are given as text; the client has parsers for them.
var parsers = map[reflect.Type]func(string) (any, error){
	reflect.TypeOf(utils.TopicName{}): func(text string) (any, error) {
		name, err := utils.GetTopicName(text)
		return deref(name), err
	},
	reflect.TypeOf(utils.NameSpaceName{}): func(text string) (any, error) {
		name, err := utils.GetNamespaceName(text)
		return deref(name), err
	},
	reflect.TypeOf(utils.MessageID{}): func(text string) (any, error) {
		id, err := utils.ParseMessageID(text)
		return deref(id), err
	},
}

func deref[T any](pointer *T) any {
	if pointer == nil {
		return nil
	}
	return *pointer
}

func argument(kind reflect.Type, given json.RawMessage) (reflect.Value, error) {
	if parse, found := parsers[kind]; found {
		var text string
		if err := json.Unmarshal(given, &text); err != nil {
			return reflect.Value{}, err
		}
		parsed, err := parse(text)
		if err != nil {
			return reflect.Value{}, err
		}
		return reflect.ValueOf(parsed), nil
	}
	value := reflect.New(kind)
	err := json.Unmarshal(given, value.Interface())
	if tenant, found := value.Interface().(*utils.TenantData); found && err == nil { // its name is no field of its JSON
		var named struct{ Name string }
		err = json.Unmarshal(given, &named)
		tenant.Name = named.Name
	}
	return value.Elem(), err
}

func run(wanted call) (answer, error) {
	client, err := pulsaradmin.NewClient(&pulsaradmin.Config{WebServiceURL: wanted.URL})
	if err != nil {
		return answer{}, err
	}
	part := reflect.ValueOf(client).MethodByName(wanted.Part)
	if !part.IsValid() {
		return answer{}, fmt.Errorf("the client has no %s", wanted.Part)
	}
	method := part.Call(nil)[0].MethodByName(wanted.Method)
	if !method.IsValid() || method.Type().NumIn() != len(wanted.Arguments) {
		return answer{}, fmt.Errorf("%s has no %s of %d arguments", wanted.Part, wanted.Method, len(wanted.Arguments))
	}
	arguments := make([]reflect.Value, 0, len(wanted.Arguments))
	for number, given := range wanted.Arguments {
		value, err := argument(method.Type().In(number), given)
		if err != nil {
			return answer{}, fmt.Errorf("argument %d of %s: %w", number+1, wanted.Method, err)
		}
		arguments = append(arguments, value)
	}
	found := answer{Returned: []any{}}
	for _, value := range method.Call(arguments) {
		if err, failed := value.Interface().(error); failed {
			found.Error = err.Error()
		} else if value.Type().String() != "error" {
			found.Returned = append(found.Returned, value.Interface())
		}
	}
	return found, nil
}

func main() {
	lines, answers := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var wanted call
		if err = json.Unmarshal(line, &wanted); err == nil {
			var found answer
			if found, err = run(wanted); err == nil {
				err = answers.Encode(found)
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
