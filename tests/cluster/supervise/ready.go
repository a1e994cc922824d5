package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// ready says when the processes count as ready.
type ready struct {
	// TCP names addresses that must accept a connection.
	TCP []string `json:"tcp"`
	// Server is the address of an API server; empty means there is none.
	Server string `json:"server"`
	Token  string `json:"token"`
	CAFile string `json:"caFile"`
	// Nodes is how many fake nodes to create, and to see Ready.
	Nodes          int `json:"nodes"`
	TimeoutSeconds int `json:"timeoutSeconds"`
}

// awaitReady closes its first channel when the API server answers, and sends
// on the second when everything is there or the time is over.
func (s *supervisor) awaitReady() (<-chan struct{}, <-chan error) {
	up, done := make(chan struct{}), make(chan error, 1)
	if s.plan.Ready == nil {
		done <- nil
		return nil, done
	}
	go func() {
		done <- s.plan.Ready.await(up)
	}()
	return up, done
}

func (r *ready) await(up chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutSeconds)*time.Second)
	defer cancel()
	for _, address := range r.TCP {
		if err := r.waitFor(ctx, "a connection to "+address, func(ctx context.Context) error {
			connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				err = connection.Close()
			}
			return err
		}); err != nil {
			return err
		}
	}
	if r.Server == "" {
		return nil
	}
	ca, err := os.ReadFile(r.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := client{ready: r, http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}
	steps := []struct {
		what string
		try  func(context.Context) error
	}{
		{"the API server to answer", func(ctx context.Context) error { return c.get(ctx, "/readyz", nil) }},
		{"fake nodes to be created", c.createNodes},
		{"the default ServiceAccount of namespace default", func(ctx context.Context) error {
			return c.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		}},
		{"fake nodes to be Ready", c.nodesReady},
	}
	for i, step := range steps {
		if err := r.waitFor(ctx, step.what, step.try); err != nil {
			return err
		}
		if i == 0 {
			close(up)
		}
	}
	return nil
}

// waitFor tries until it works or the time is over.
func (r *ready) waitFor(ctx context.Context, what string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %d s for %s; the last answer was: %w", r.TimeoutSeconds, what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type client struct {
	*ready
	http *http.Client
}

func (c *client) do(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	// One hanging answer must not use up the whole time.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.Server+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "windlass-testbed")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	exists := method == http.MethodPost && response.StatusCode == http.StatusConflict
	if response.StatusCode >= 300 && !exists {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, text)
	}
	if answer != nil {
		return json.Unmarshal(text, answer)
	}
	return nil
}

func (c *client) get(ctx context.Context, path string, answer any) error {
	return c.do(ctx, http.MethodGet, path, nil, answer)
}

type object = map[string]any

func (c *client) createNodes(ctx context.Context) error {
	for i := range c.Nodes {
		name := "node-" + strconv.Itoa(i)
		node := object{
			"apiVersion": "v1",
			"kind":       "Node",
			"metadata": object{
				"name":        name,
				"annotations": object{"kwok.x-k8s.io/node": "fake"},
				"labels": object{
					"kubernetes.io/hostname":      name,
					"kubernetes.io/os":            "linux",
					"kubernetes.io/arch":          "amd64",
					"topology.kubernetes.io/zone": "zone-" + strconv.Itoa(i%3),
				},
			},
		}
		if err := c.do(ctx, http.MethodPost, "/api/v1/nodes", node, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) nodesReady(ctx context.Context) error {
	var nodes struct {
		Items []struct {
			Spec struct {
				Taints []struct{ Key string }
			}
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := c.get(ctx, "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			// A taint left from before Ready would still keep pods away.
			if condition.Type == "Ready" && condition.Status == "True" && len(node.Spec.Taints) == 0 {
				ready++
			}
		}
	}
	if ready < c.Nodes {
		return errors.New(strconv.Itoa(ready) + " of " + strconv.Itoa(c.Nodes) + " nodes are Ready")
	}
	return nil
}
