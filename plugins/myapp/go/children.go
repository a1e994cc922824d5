package main

import windlass "windlass.dev/plugin"

// labels are the labels of all children. A Deployment's selector is immutable, so they never change.
func labels(request *Request) windlass.Map {
	return windlass.Map{"app": request.Name, "managed-by": "windlass"}
}

func deployment(request *Request) windlass.Map {
	spec := request.Spec
	container := windlass.Map{
		"name":      "app",
		"image":     spec.Image,
		"ports":     []windlass.Map{{"name": "http", "containerPort": spec.Port}},
		"env":       spec.Env,
		"resources": windlass.Map{"requests": spec.Resources},
	}
	return windlass.Map{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   windlass.Map{"name": request.Name, "labels": labels(request)},
		"spec": windlass.Map{
			"replicas": spec.Replicas,
			"selector": windlass.Map{"matchLabels": windlass.Map{"app": request.Name}},
			"template": windlass.Map{
				"metadata": windlass.Map{"labels": labels(request)},
				"spec":     windlass.Map{"containers": []windlass.Map{container}},
			},
		},
	}
}

func service(request *Request) windlass.Map {
	return windlass.Map{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   windlass.Map{"name": request.Name, "labels": labels(request)},
		"spec": windlass.Map{
			"type":     "ClusterIP",
			"selector": windlass.Map{"app": request.Name},
			"ports":    []windlass.Map{{"name": "http", "port": request.Spec.Port, "targetPort": "http"}},
		},
	}
}

func ingress(request *Request, host string) windlass.Map {
	backend := windlass.Map{"service": windlass.Map{"name": request.Name, "port": windlass.Map{"name": "http"}}}
	path := windlass.Map{"path": "/", "pathType": "Prefix", "backend": backend}
	return windlass.Map{
		"apiVersion": "networking.k8s.io/v1",
		"kind":       "Ingress",
		"metadata":   windlass.Map{"name": request.Name, "labels": labels(request)},
		"spec": windlass.Map{
			"rules": []windlass.Map{{"host": host, "http": windlass.Map{"paths": []windlass.Map{path}}}},
		},
	}
}
